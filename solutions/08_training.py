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
# # 8 · Training
#
# The Transformer of notebook 7 runs, but it knows nothing. Here you write everything that makes it learn: the loss, the
# shift, the learning rate, one step of training, and a way to train with less memory. Then you train a translator from
# English to French on the spot and look at where it looks. It takes about 90 minutes; the training itself takes about
# a minute and a half of them.

# %% setup
import math
import os
import time
from functools import partial

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from IPython.display import display
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from course_lib import check, grammar, hint, solution, translation
from course_lib import training as reference
from course_lib.decoding import bleu, exact_match
from course_lib.dot_product_attention import scaled_dot_product_attention
from course_lib.encoder_decoder import Encoder
from course_lib.plotting import COLOURS, show_matrix, use_course_style
from course_lib.transformer import Transformer, cross_attention_weights

use_course_style()
torch.set_num_threads(1)  # on a machine with other work to do, several threads wait for each other
FAST = os.environ.get("COURSE_FAST") == "1"  # for testing the notebook: the same cells, fewer steps

# %% [markdown]
# ## What comes out of the model
#
# At each position the decoder ends in a vector $h_t$ of `d_model` numbers. The output layer turns it into one number
# for each word of the vocabulary, the **logits**, and a softmax turns these into probabilities:
#
# $$p_t = \operatorname{softmax}(W_o\, h_t + b_o) \qquad W_o\colon (V \times d_\text{model})$$
#
# Take a vocabulary of $V = 6$ words and a model that has learned nothing, and let it translate *merci*. We want
# "thanks". What we get depends on the random numbers that the model began with.

# %%
words = ["a", "am", "i", "thanks", "student", "<eos>"]
torch.manual_seed(2)
output_layer = nn.Linear(8, len(words))  # d_model = 8
h = torch.randn(8)  # stands for the decoder's vector after reading "merci"
p = output_layer(h).softmax(dim=-1).detach()  # (6,)
wanted = F.one_hot(torch.tensor(3), len(words)).float()  # all of it on "thanks"

figure, axes = plt.subplots(1, 2, figsize=(9, 2.6), sharey=True)
for ax, values, title, colour in zip(axes, (p, wanted), ("the untrained model", "what we want"), COLOURS):
    bars = ax.bar(words, values, color=colour)
    ax.bar_label(bars, fmt="%.2f", fontsize=8)
    ax.set(title=f"merci → ? · {title}", xlabel="word", ylim=(0, 1.1))
axes[0].set_ylabel("probability")
plt.show()

# %% [markdown]
# A model that only guesses gives each of six words about $1/6 = 0.17$, and so does this one, more or less.
#
# ## How far apart are two distributions?
#
# To train, we need one number that says how far the left picture is from the right one.
#
# **Spot the mistake.** An explanation of the Transformer says: "How do we compare two probability distributions? We
# simply subtract one from the other." Try it with $q = (0.6, 0.3, 0.1)$, the truth, and $p = (0.2, 0.3, 0.5)$, a guess.

# %%
q = torch.tensor([0.6, 0.3, 0.1])
p = torch.tensor([0.2, 0.3, 0.5])
print("p - q:      ", [round(value, 2) for value in (p - q).tolist()])
print("added up:   ", f"{(p - q).sum().abs():.4f}")

# %% [markdown]
# The differences add up to 0, and they always do: both distributions add up to 1. What is used is the
# **cross-entropy**, the mean surprise $-\log p$ of somebody who believes $p$ while the words come from $q$:
#
# $$\operatorname{CE}(q, p) = -\sum_v q_v \log p_v = \underbrace{-\sum_v q_v \log q_v}_{H(q)}
# + \underbrace{\sum_v q_v \log \frac{q_v}{p_v}}_{\operatorname{KL}(q\,\|\,p)}$$
#
# The entropy $H(q)$ is the surprise that nobody can avoid. The Kullback–Leibler divergence is what the wrong belief
# adds to it; it is 0 only if $p = q$. Training changes $p$ alone, and $p$ is not in $H(q)$. So it makes no difference
# whether one goes down the gradient of the cross-entropy or that of the divergence.

# %%
entropy = -(q * q.log()).sum()
for name, guess in (("the guess p:    ", p), ("a perfect guess:", q)):
    cross_entropy = -(q * guess.log()).sum()
    divergence = (q * (q / guess).log()).sum()
    print(f"{name}  cross-entropy {cross_entropy:.4f} = entropy {entropy:.4f} + divergence {divergence:.4f}")

# %% [markdown]
# In training the truth is one word, so $q$ is 1 there and 0 elsewhere. Then $H(q) = 0$, and of the sum one term is
# left: $-\log p_\text{target}$. This is called the *negative log-likelihood*.
#
# And where does the subtraction come from? It is the **gradient**. With respect to the logits,
#
# $$\frac{\partial \operatorname{CE}}{\partial\, \text{logit}_v} = p_v - y_v$$
#
# where $y$ is the one-hot target: what the model says minus what it should say. Torch agrees:

# %%
logits = torch.tensor([0.5, -1.0, 0.2, 0.1, 1.5, -0.3], requires_grad=True)
target = torch.tensor(3)
loss = F.cross_entropy(logits, target)
loss.backward()
p = logits.detach().softmax(dim=-1)
y = F.one_hot(target, 6)
print("loss          ", f"{loss.item():.4f}   = -log p(thanks) = {-math.log(p[3]):.4f}")
print("gradient      ", [round(value, 4) for value in logits.grad.tolist()])
print("p - y         ", [round(value, 4) for value in (p - y).tolist()])

# %% [markdown]
# One thing about `F.cross_entropy`: it wants **logits**, and takes the softmax itself. What if it is given something
# else?

# %%
for name, given in (("logits", logits.detach()), ("log p", p.log()), ("p", p), ("a perfect p", y.float())):
    print(f"given {name:12} loss {F.cross_entropy(given, target):.4f}")

# %% [markdown]
# Given $\log p$ it is right by luck: a log-softmax of a log-softmax changes nothing. Given $p$ it is wrong, and nothing
# complains. The softmax of numbers between 0 and 1 is nearly flat: even a perfect $p$, one 1 and five zeros, has the
# loss $-\ln \frac{e}{e + 5} = 1.04$.

# %% [markdown]
# ## A whole sentence
#
# A translation is several words, so there are several distributions, one for each position. *je suis étudiant* becomes
# "i am a student", and a fifth position has to say `<eos>`: the end. The probability of the sentence is the product of
# its words' probabilities, each given the source $x$ and the words before it, so the logarithms add up:
#
# $$\mathcal{L} = -\sum_{t=0}^{T-1} \log P(y_t \mid x, y_{<t})$$
#
# We divide by the number of words $T$ to have a number that does not depend on the length. A model that finds all of 6
# words equally likely has a loss of $\ln 6 = 1.79$. (A real vocabulary has 30,000 to 50,000 entries, and
# $\ln 50{,}000 = 10.8$. The translator below has a few hundred.)
#
# To see the gradient at work there is no Transformer needed: take the 5 × 6 logits themselves as the thing to be
# learned, and go down the gradient 40 times. They begin at random, and so a little worse than $\ln 6$.

# %%
sentence = ["i", "am", "a", "student", "<eos>"]
targets = torch.tensor([words.index(word) for word in sentence])  # (5,)
torch.manual_seed(0)
logits = torch.randn(5, 6)
before = logits.softmax(dim=-1)  # (5, 6)
for _ in range(40):
    logits -= 1.0 * (logits.softmax(dim=-1) - F.one_hot(targets, 6))  # learning rate 1 · (p - y)
after = logits.softmax(dim=-1)
for name, p in (("at the beginning", before), ("after 40 steps", after)):
    print(f"loss {name}: {-p[range(5), targets].log().mean():.3f}")

# %% figure
figure, axes = plt.subplots(1, 3, figsize=(9, 2.9))
pictures = [("before", before), ("target", F.one_hot(targets, 6).float()), ("after 40 steps", after)]
for ax, (title, values) in zip(axes, pictures):
    show_matrix(
        values, title, rows="", columns="word", row_names=sentence if ax is axes[0] else None, column_names=words,
        limits=(0, 1), ax=ax,
    )  # fmt: skip
axes[0].set_ylabel("what should be there")
axes[1].set_yticks([])
axes[2].set_yticks([])
plt.show()

# %% [markdown]
# "After" is not quite the target: to reach probability 1, a logit would have to be infinite.

# %% [markdown]
# ## Teacher forcing, and the shift
#
# The formula has $y_{<t}$ in it: the words *before* position $t$. During training we know them all. So the decoder
# is given the true words, whatever it would have said itself, and all positions are trained at once. This is
# **teacher forcing**.
#
# **Spot the mistake.** "Teacher forcing means that during training the decoder writes the sentence word by word, from
# the words that it has already generated."
#
# <details><summary>Answer</summary>
#
# That is how it works *after* training, when there is no truth to be given. With teacher forcing the decoder's input
# is the ground truth, shifted by one place. One wrong guess then does not spoil the positions after it, and no
# position has to wait for another.
#
# </details>
#
# At position $t$ the decoder is asked for $y_t$ and has to have seen $y_0 \dots y_{t-1}$. Thanks to the causal mask,
# position $t$ sees its inputs 0 to $t$. So its input at place $t$ has to be $y_{t-1}$: the targets, moved one place to
# the right. In front of the first word there is nothing. A special token stands in for it, BOS ("beginning of
# sentence", also called SOS), so that the first word, too, is predicted from something.
#
# | position | 0 | 1 | 2 | 3 | 4 |
# |---|---|---|---|---|---|
# | given to the decoder | `<bos>` | i | am | a | student |
# | asked for (the target) | i | am | a | student | `<eos>` |
#
# $$\text{given}_0 = \text{BOS} \qquad\qquad \text{given}_t = \text{target}_{t-1}$$
#
# {{exercise shift_right}}


# %% exercise shift_right
def shift_right(targets: Tensor, bos_id: int) -> Tensor:
    """What the decoder is given: BOS, then every target but the last.

    targets: (batch, time), whole numbers: words, EOS, and padding behind it. They are left as they are.
    Returns: a new tensor of the same shape. EOS and padding are moved like any other token: what stands behind EOS is
    never counted, so it does no harm.
    """
    ### BEGIN SOLUTION
    first = torch.full_like(targets[:, :1], bos_id)  # (batch, 1)
    return torch.cat([first, targets[:, :-1]], dim=1)  # (batch, time)
    ### END SOLUTION


# %% check shift_right
check(shift_right)

# %% [markdown]
# Stuck? Run `hint("shift_right")` in a new cell, and again for the next hint.
#
# What if one forgets the shift? It is a common mistake, and it looks like a great success. Here both ways are
# tried on sentences of **random** words, each drawn from 12. There is nothing to be learned, so no honest model can
# stay below $\ln 12 = 2.485$. (The training loop is the one that you will write below.)


# %%
def train_on_dice(shifted: bool, steps: int) -> list[float]:
    torch.manual_seed(0)
    model = Transformer(src_vocab=15, tgt_vocab=15, d_model=32, num_heads=2, d_ff=64, num_layers=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(steps):
        source, targets = torch.randint(3, 15, (2, 32, 6))  # ids 0, 1, 2 are PAD, BOS, EOS
        given = reference.shift_right(targets, bos_id=1) if shifted else targets
        loss = F.cross_entropy(model(source, given).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


steps = 60 if FAST else 300
curves = {"targets shifted": train_on_dice(True, steps), "targets not shifted": train_on_dice(False, steps)}
for name, losses in curves.items():
    print(f"{name:20} loss of the last 20 steps: {sum(losses[-20:]) / 20:.4f}")

# %% figure
figure, ax = plt.subplots(figsize=(7, 3))
for name, losses in curves.items():
    ax.plot(losses, label=name)
ax.axhline(math.log(12), color="grey", linestyle=":", label="ln 12, the best possible")
ax.set(title="Training on random words", xlabel="step", ylabel="loss (nats)", ylim=(0, 3.2))
ax.legend(loc="center right")
plt.show()

# %% [markdown]
# Without the shift the decoder finds its answer in its own input, and copies it. **A loss that is too good to be true
# means that the model sees what it should predict.** Training on random targets is a quick test for it, and you can do
# it with any model.
#
# The same shift trains a language model, which has no source at all: the target is the text itself, one place
# further. Its texts are long (a well-known one, *enwik8*, has $10^8$ characters; if you read "108 characters"
# somewhere, a superscript was lost) and are not cut into sentences. A batch is made of pieces that begin at random
# places:

# %%
text = "to be or not to be that is the question "
torch.manual_seed(1)
length = 8
for start in torch.randint(0, len(text) - length, (3,)).tolist():
    piece = text[start : start + length + 1]
    print(f"from {start:2d}   given {piece[:-1]!r:12}   asked for {piece[1:]!r}")

# %% [markdown]
# Each piece of 8 characters asks 8 questions at once. The second one asks what follows "t", what follows "t ", what
# follows "t t", and so on. Thanks to the causal mask no position sees its own answer.

# %% [markdown]
# ## The loss of a batch
#
# Sentences have different lengths, and short ones are padded. Nobody wants the model to learn to say `<pad>`, so these
# positions must not count. There is a wrong way to do that: set their losses to 0, and take the mean over everything.
# Then the same sentence has a smaller loss, and a smaller gradient, the more padding its neighbours force on it.

# %%
torch.manual_seed(0)
logits = torch.randn(1, 3, 6)
targets = torch.tensor([[2, 1, 5]])  # i am <eos>
for padding in (0, 1, 3, 9):
    wide = F.pad(logits, (0, 0, 0, padding))  # (1, 3 + padding, 6)
    losses = F.cross_entropy(wide[0], F.pad(targets, (0, padding))[0], reduction="none")
    losses[3:] = 0.0
    everything, real = losses.mean(), losses[:3].mean()
    print(f"padding {padding}:   mean over everything {everything:.4f}   over the real ones {real:.4f}")

# %% [markdown]
# Every *real* target counts the same, in the whole batch. With $n$ of them,
#
# $$\mathcal{L} = -\frac{1}{n} \sum_{\substack{b,\,t\\ \text{target}_{b,t} \ne \text{PAD}}}
# \log\, \operatorname{softmax}(\text{logits}_{b,t})_{\text{target}_{b,t}}$$
#
# Write it from its parts, or with `F.cross_entropy`. Two things are easily got wrong there: the vocabulary has to be
# the second axis (or all positions flattened into one), and the argument that leaves padding out is called
# `ignore_index`. (You can find it as `ignore_idx` in print. Python answers with a `TypeError`.)
#
# {{exercise sequence_loss}}


# %% exercise sequence_loss
def sequence_loss(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """Cross-entropy: the mean of -log p(target) over all targets of the batch that are not pad_id.

    logits: (batch, time, vocab), any size, ±1000 too; logits[b, t] is about targets[b, t]. targets: (batch, time).
    Returns: a tensor with one number, in nats (natural logarithm), through which gradients flow.
    """
    ### BEGIN SOLUTION
    log_probabilities = logits.log_softmax(dim=-1)  # (batch, time, vocab)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1))  # (batch, time, 1)
    losses = -chosen.squeeze(-1)  # (batch, time)
    return losses[targets != pad_id].mean()
    ### END SOLUTION


# %% check sequence_loss
check(sequence_loss)

# %% [markdown]
# The picture shows its gradient for two sentences of the small vocabulary, with `<pad>` as a seventh word. There are
# $n = 5 + 2 = 7$ real targets. The gradient is $(p - y) / 7$ there and 0 in the rows of padding.

# %%
with_pad = [*words, "<pad>"]
targets = torch.tensor([[2, 1, 0, 4, 5], [3, 5, 6, 6, 6]])
torch.manual_seed(0)
logits = torch.randn(2, 5, 7, requires_grad=True)
reference.sequence_loss(logits, targets, pad_id=6).backward()

# %% figure
figure, axes = plt.subplots(1, 2, figsize=(9, 3))
for ax, name, gradient, row in zip(axes, ("long", "short"), logits.grad, targets):
    show_matrix(
        gradient, f"gradient for the {name} sentence", rows="target", columns="word", diverging=True,
        row_names=[with_pad[i] for i in row.tolist()], column_names=with_pad, limits=(-0.15, 0.15), ax=ax,
    )  # fmt: skip
plt.show()

# %% [markdown]
# Negative (at the target): this logit will be raised. Positive: it will be lowered, the more the likelier the model
# thought the wrong word. Each row adds up to 0: what one word gains the others lose.
#
# One trap is left. If *all* targets are padding there is nothing to take a mean of:

# %%
nothing = torch.full((3,), 6)  # three targets, all of them padding
for name in ("ignore_index", "sum / number"):
    logits = torch.zeros(3, 7, requires_grad=True)
    if name == "ignore_index":
        loss = F.cross_entropy(logits, nothing, ignore_index=6)
    else:
        real = (nothing != 6).float()
        loss = (F.cross_entropy(logits, nothing, reduction="none") * real).sum() / real.sum()
    loss.backward()
    print(f"{name:13} loss {loss.item()}   gradient of the first logit {logits.grad[0, 0].item()}")

# %% [markdown]
# The loss is $0/0$, `nan`, and so is every mean that it enters. With the second way of writing it the gradient is
# `nan` as well, and after one step so is every weight of the model. Do not make such batches.
#
# With all this in place, padding is invisible from outside: the model builds its masks inside `forward`, out of the ids
# alone, and the loss leaves padding out. Widening a batch changes nothing.

# %%
torch.manual_seed(0)
model = Transformer(src_vocab=20, tgt_vocab=20, d_model=32, num_heads=2, d_ff=64, num_layers=1).eval()
((source, targets),) = translation.copy_batches(batch_size=4, steps=1, seed=0)
for extra in (0, 1, 20):
    wide_source, wide_targets = F.pad(source, (0, extra)), F.pad(targets, (0, extra))  # PAD is 0
    loss = reference.sequence_loss(model(wide_source, reference.shift_right(wide_targets, 1)), wide_targets, pad_id=0)
    print(f"{extra:2d} more columns of padding: loss {loss:.6f}")

# %% [markdown]
# ## Label smoothing
#
# A one-hot target is never reached: the model can always lower its loss by being still more certain. Label smoothing
# (Szegedy et al. 2016; the Transformer paper uses $\varepsilon = 0.1$) asks for a little less. The target word gets
# $1 - \varepsilon$, and $\varepsilon$ is spread evenly over all $V$ words, the target included:
#
# $$q_v = (1 - \varepsilon)\, y_v + \frac{\varepsilon}{V}$$
#
# The cross-entropy with this soft target is a mix of two losses. For one position:
#
# $$\operatorname{CE}(q, p) = (1 - \varepsilon) \cdot (-\log p_\text{target}) \;+\; \varepsilon \cdot
# \frac1V \sum_v (-\log p_v)$$
#
# (Other versions spread $\varepsilon$ over the $V - 1$ wrong words. Ours is that of torch's `label_smoothing`.)
#
# {{exercise smoothed_loss}}


# %% exercise smoothed_loss
def smoothed_loss(logits: Tensor, targets: Tensor, pad_id: int, epsilon: float) -> Tensor:
    """Cross-entropy with soft targets: (1 - epsilon) on the target, epsilon spread evenly over all V words.

    logits: (batch, time, vocab), ±1000 too; targets: (batch, time); epsilon: 0 to 1.
    Returns: a tensor with one number, in nats: the mean over all targets that are not pad_id.
    """
    ### BEGIN SOLUTION
    log_probabilities = logits.log_softmax(dim=-1)  # (batch, time, vocab)
    chosen = log_probabilities.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)  # (batch, time)
    average = log_probabilities.mean(dim=-1)  # (batch, time)
    losses = -(1 - epsilon) * chosen - epsilon * average  # (batch, time)
    return losses[targets != pad_id].mean()
    ### END SOLUTION


# %% check smoothed_loss
check(smoothed_loss)

# %% [markdown]
# With hard targets the loss falls for ever as the model grows more certain. With soft ones there is a best
# certainty, exactly $q$. For $V = 6$ and $\varepsilon = 0.1$ that is $0.9 + 0.1/6 = 0.917$:

# %%
certainty = torch.linspace(0.3, 0.9995, 400)  # from left to right in the picture
others = ((1 - certainty) / 5).unsqueeze(-1).expand(-1, 5)
logits = torch.cat([certainty.unsqueeze(-1), others], dim=-1).log().unsqueeze(1)  # (400, 1, 6)
figure, ax = plt.subplots(figsize=(6.5, 3))
for epsilon, colour in zip((0.0, 0.1, 0.3), COLOURS):
    losses = torch.tensor([reference.smoothed_loss(row[None], torch.tensor([[0]]), 5, epsilon) for row in logits])
    ax.plot(certainty, losses, color=colour, label=f"ε = {epsilon}")
    best = losses.argmin()
    ax.plot(certainty[best], losses[best], "o", color=colour)
    print(f"ε = {epsilon}: the lowest loss, {losses[best]:.3f}, is at probability {certainty[best]:.4f}")
ax.set(title="The loss of one target, by how certain the model is", xlabel="probability of the target", ylabel="loss")
ax.legend()
plt.show()

# %% [markdown]
# With $\varepsilon = 0$ the lowest point is the edge of the picture.
#
# Is that good? It is often said to make models *calibrated*: of the answers given with 90 % certainty, 90 % should be
# right. Let us measure it. Two equal models learn to say a row of symbols backwards, one with hard and one with soft
# targets. The **calibration error** sorts the answers by certainty into ten bins. In each bin it compares the mean
# certainty with the share that is right; then it takes the mean of these distances, each bin counting as much as it has
# answers.


# %%
def train_backwards(epsilon: float, steps: int) -> Transformer:
    torch.manual_seed(0)
    model = Transformer(src_vocab=20, tgt_vocab=20, d_model=64, num_heads=4, d_ff=128, num_layers=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for source, targets in translation.copy_batches(64, steps, seed=1, reverse=True, longest=10):
        loss = reference.smoothed_loss(model(source, reference.shift_right(targets, 1)), targets, 0, epsilon)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


@torch.no_grad()
def certainty_and_truth(model: Transformer) -> tuple[Tensor, Tensor]:
    """How certain the model is of each of its answers, and whether it is right (1) or not (0)."""
    ((source, targets),) = translation.copy_batches(1000, 1, seed=99, reverse=True, longest=10)
    certainty, answers = model(source, reference.shift_right(targets, 1)).softmax(dim=-1).max(dim=-1)
    real = targets != 0
    return certainty[real], (answers == targets)[real].float()


def calibration_error(certainty: Tensor, right: Tensor) -> float:
    bins = (10 * certainty).long().clamp(max=9)
    errors = [(certainty[bins == b] - right[bins == b]).sum().abs() for b in range(10)]
    return float(sum(errors) / len(certainty))


measured = {}
for epsilon in (0.0, 0.1):
    certainty, right = certainty_and_truth(train_backwards(epsilon, steps=20 if FAST else 150))
    measured[epsilon] = certainty.mean().item(), right.mean().item()
    shares = f"certainty {certainty.mean():.3f}   right {right.mean():.3f}"
    print(f"ε = {epsilon}:  {shares}   calibration error {calibration_error(certainty, right):.3f}")

# %% figure
figure, ax = plt.subplots(figsize=(5, 2.8))
for offset, (name, index) in zip((-0.18, 0.18), (("mean certainty", 0), ("share that is right", 1))):
    bars = ax.bar([x + offset for x in (0, 1)], [values[index] for values in measured.values()], 0.34, label=name)
    ax.bar_label(bars, fmt="%.2f", fontsize=8)
ax.set(title="How certain the model is, and how often it is right", ylim=(0, 1.35), yticks=[0, 0.25, 0.5, 0.75, 1])
ax.set_xticks([0, 1], [f"ε = {epsilon}" for epsilon in measured])
ax.set(xlabel="label smoothing", ylabel="share of all symbols")
ax.legend(ncols=2, loc="upper center", fontsize=8)
plt.show()

# %% [markdown]
# Label smoothing made the calibration *worse*: the model is right far more often than it believes. That is no wonder,
# since it was told to stay below certainty. It is right about as often as the other one. Where models are overconfident
# (large ones, trained for long on noisy data) smoothing has been found to help. At our scale it does not, and we train
# without it. What one reads about a method is worth measuring.

# %% [markdown]
# ## The learning rate
#
# How large should a step be? At the beginning all weights are random, and large steps can do lasting harm: notebook 5
# showed a deep model that barely gets off the ground with them. At the end, large steps jump to and fro across the
# valley instead of settling in it. So the paper's learning rate rises in a straight line for `warmup` steps and then
# falls with one over the root of the step. Both in one formula, with steps counted from 1:
#
# $$\text{rate}(\text{step}) = d_\text{model}^{-\frac12} \cdot \min\!\left(\text{step}^{-\frac12},\;
# \text{step} \cdot \text{warmup}^{-\frac32}\right)$$
#
# Check by hand: at step = warmup both parts are $\text{warmup}^{-1/2}$, so this is where they meet and the top of the
# curve, $1 / \sqrt{d_\text{model} \cdot \text{warmup}}$.
#
# {{exercise warmup_rate}}


# %% exercise warmup_rate
def warmup_rate(step: int, d_model: int, warmup: int) -> float:
    """The paper's learning rate at a step. Steps are counted from 1. Returns: a number, the whole rate."""
    ### BEGIN SOLUTION
    rising = step * warmup**-1.5
    falling = step**-0.5
    return d_model**-0.5 * min(rising, falling)
    ### END SOLUTION


# %% check warmup_rate
check(warmup_rate)

# %%
steps = range(1, 20_001, 10)
figure, axes = plt.subplots(1, 2, figsize=(10, 3.2), width_ratios=[3, 2])
for (d_model, warmup), style in zip(((512, 4000), (512, 8000), (256, 4000)), ("-", "--", ":")):
    rates = [1e4 * reference.warmup_rate(step, d_model, warmup) for step in steps]
    axes[0].plot(steps, rates, style, label=f"d_model {d_model}, warmup {warmup}")
    top = 1e4 * reference.warmup_rate(warmup, d_model, warmup)
    print(f"d_model {d_model}, warmup {warmup}: the top, at step {warmup}, is {top:.2f} · 10⁻⁴")
axes[0].set(title="the paper's", xlabel="step", ylabel="learning rate · 10⁴")
axes[0].legend()
steps = range(1, 1001)
axes[1].plot(steps, [1e4 * reference.cosine_rate(step, steps=1000, peak=3e-3, warmup=100) for step in steps])
axes[1].set(title="our translator's", xlabel="step", ylabel="learning rate · 10⁴")
plt.show()

# %% [markdown]
# By hand: $1 / \sqrt{512 \cdot 4000} = 1 / 1431 = 6.99 \cdot 10^{-4}$. A longer warm-up has a lower top, a wider model
# a lower curve.
#
# On the right is another common shape, the one that our translator will use (`reference.cosine_rate`): a short rise,
# then half a cosine down to 0 at the last step. Our model has its norms in front of the sub-layers. In notebook 5 such
# a model needed no warm-up, and a deep one with its norms behind them, as in the paper, did.

# %% [markdown]
# ## One step
#
# Now everything for one step of training is there. One new thing: **gradient clipping**. Once in a while a batch has an
# enormous gradient, and one step along it throws the model far away. So if the gradient is longer than
# `max_norm`, it is shortened to that length. Length means: of *all* numbers of all parameters together,
#
# $$g \leftarrow g \cdot \min\!\left(1, \frac{\text{max\_norm}}{\lVert g \rVert}\right) \qquad
# \lVert g \rVert = \sqrt{\textstyle\sum_i g_i^2}$$
#
# One factor for all of them keeps the direction. Cutting off each number by itself does not:

# %%
gradient = torch.tensor([3.0, 0.6])
shortened = gradient * min(1.0, 1.0 / gradient.norm().item())
cut = gradient.clamp(-1, 1)
for name, vector in (("gradient", gradient), ("shortened", shortened), ("cut", cut)):
    a, b = vector.tolist()
    print(f"{name:10} ({a:.2f}, {b:.2f})   length {vector.norm():.2f}   second / first {b / a:.2f}")

# %% figure
figure, ax = plt.subplots(figsize=(8, 2.6))
ax.add_patch(plt.Circle((0, 0), 1, fill=False, color="grey", linestyle=":"))
for vector, name, colour in ((gradient, "the gradient", "#888888"), (shortened, "shortened to length 1", COLOURS[0]),
                             (cut, "each number cut off at 1", COLOURS[1])):  # fmt: skip
    ax.annotate("", xy=vector.tolist(), xytext=(0, 0), arrowprops={"arrowstyle": "->", "color": colour, "lw": 2})
    ax.plot([], [], color=colour, label=name)
ax.set(title="Two ways to clip", xlabel="parameter 1", ylabel="parameter 2", xlim=(-1.1, 3.3), ylim=(-1.1, 1.3))
ax.set_aspect("equal")
ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
plt.show()

# %% [markdown]
# What takes the step is the **optimizer**. The plainest one goes down the gradient: parameter minus rate times
# gradient. Ours is **Adam**, which gives every parameter a step of its own: the running mean of its gradients, divided
# by their running size. It does so when `optimizer.step()` is called; more of it you need not know here.
#
# The seven lines of a step, in an order in which each has its reason:
#
# 1. the model is put into training mode (dropout on; after an evaluation it was off),
# 2. old gradients are cleared: `backward` *adds* to what stands in `.grad`,
# 3. logits, by teacher forcing,
# 4. the loss,
# 5. backward,
# 6. clipping (`nn.utils.clip_grad_norm_`), which needs gradients that are there and not yet used,
# 7. the optimizer's step.
#
# Use the course's own `reference.shift_right` and `reference.sequence_loss`, then nothing depends on your cells above.
#
# {{exercise train_step}}


# %% exercise train_step
def train_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    source: Tensor,
    targets: Tensor,
    bos_id: int,
    pad_id: int,
    max_norm: float,
) -> float:
    """One step of the optimizer on one batch. The model may come from an evaluation, and its .grad may be full.

    model: called as model(source ids, given ids), returns logits (batch, target, vocab).
    source: (batch, source); targets: (batch, target), EOS at the end of each row and padding behind it.
    Gradients longer than max_norm, all parameters together, are shortened to it.
    Returns: the loss before the step, a number, without a graph behind it.
    """
    ### BEGIN SOLUTION
    model.train()
    optimizer.zero_grad()
    logits = model(source, reference.shift_right(targets, bos_id))  # (batch, target, vocab)
    loss = reference.sequence_loss(logits, targets, pad_id)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()
    ### END SOLUTION


# %% check train_step
check(train_step)

# %% [markdown]
# How long are gradients? Here is their length in the first steps of a small model that learns to copy. Everything above
# the dashed line is shortened to it.

# %%
torch.manual_seed(0)
model = Transformer(src_vocab=20, tgt_vocab=20, d_model=64, num_heads=4, d_ff=128, num_layers=1)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
lengths = []
for source, targets in translation.copy_batches(64, 20 if FAST else 120, seed=1, longest=10):
    model.zero_grad()
    reference.sequence_loss(model(source, reference.shift_right(targets, 1)), targets, 0).backward()
    lengths.append(nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())  # it returns the length before clipping
    optimizer.step()
print(f"{sum(length > 1 for length in lengths)} of {len(lengths)} gradients are longer than 1")
figure, ax = plt.subplots(figsize=(7, 2.7))
ax.plot(range(1, len(lengths) + 1), lengths, label="length of the gradient")
ax.axhline(1.0, color=COLOURS[1], linestyle="--", label="max_norm")
ax.set(title="Learning to copy: the gradient before clipping", xlabel="step", ylabel="length", ylim=(0, None))
ax.legend()
plt.show()

# %% [markdown]
# So with `max_norm=1.0` clipping is no rare emergency here: most steps are shortened. Still it matters most where the
# line shoots up.

# %% [markdown]
# ## Memory
#
# What fills the memory in training are not so much the parameters as the intermediate results, which are kept until
# the backward pass needs them. For long texts the largest of them are the scores and weights of the attention: for each
# sentence and each head matrices of $t \times t$ numbers.
#
# **Spot the mistake.** A text on Transformers reckons: "For t = 1000 in 32 bits, a batch of 16 such matrices takes
# about 250 MB. Since each self-attention needs at least four of them (before and after the softmax, and the gradients
# of both), 12 GB are enough for 12 layers at most." Recompute it before you run the cell.

# %%
one = 16 * 1000**2 * 4  # matrices · t² · bytes of a float32
print(f"16 matrices:            {one / 1e6:.0f} MB ({one / 2**20:.0f} MiB)")
print(f"four copies of each:    {4 * one / 1e6:.0f} MB")
print(f"layers in 12 GB:        {12e9 / (4 * one):.1f}")

# %% [markdown]
# The 250 MB already contain the four copies, and the text counts them twice. 46 layers would fit. (With one
# head, that is. With 4 heads there are four times as many matrices, and 11.7 layers fit.) What does not change: the
# memory grows with $t^2$. Let us measure it: inside of `with reference.MemoryMeter() as meter:` the bytes of all new
# tensors are counted. One sentence, one head, forward and backward; once by the formula of notebook 1, once with
# torch's fused operator:

# %%
print("   t    t² numbers   by formula        fused")
for t in (250, 500, 1000):
    q, k, v = (torch.randn(1, 1, t, 16, requires_grad=True) for _ in range(3))  # (batch, head, time, d_k)
    with reference.MemoryMeter() as by_formula:
        scaled_dot_product_attention(q, k, v)[0].sum().backward()
    with reference.MemoryMeter() as fused:
        F.scaled_dot_product_attention(q, k, v).sum().backward()
    sizes = [4 * t**2, by_formula.peak, fused.peak]
    print(f"{t:4}    " + "   ".join(f"{size / 1e6:7.2f} MB" for size in sizes))

# %% [markdown]
# Twice the length, four times the memory, and it is about three such matrices. (Not four: for its backward pass the
# softmax needs only its result, so the scores can be dropped.) The fused operator works through the matrix in pieces
# and never stores all of it: there, twice the length is twice the memory. Inside of our models the fused one is used,
# wherever nobody asks for the weights.
#
# What else saves memory? Three tricks: half precision, gradient accumulation and checkpointing.
#
# ### Half precision
#
# Numbers of 16 bits take half the space. There are two kinds of them:

# %%
print("dtype      bytes     largest    smallest normal   next after 1")
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    info = torch.finfo(dtype)
    print(f"{str(dtype)[6:]:10} {info.bits // 8:3d}   {info.max:12.3g}   {info.tiny:12.3g}      1 + {info.eps:.3g}")

# %% [markdown]
# float16 has three good digits and a small range: nothing above 65,504. bfloat16 has the range of float32 and only two
# good digits. And the memory?

# %%
x = torch.randn(8, 100, 64)  # (batch, time, d_model)
mask = torch.ones(8, 1, 100, dtype=torch.bool)
for dtype in (torch.float32, torch.bfloat16):
    encoder = Encoder(d_model=64, num_heads=4, d_ff=256, num_layers=6, dropout=0.0, norm_first=True).to(dtype)
    with reference.MemoryMeter() as meter:
        encoder(x.to(dtype), mask).float().pow(2).mean().backward()
    print(f"{str(dtype)[6:]:8}  forward and backward through 6 layers: {meter.peak / 1e6:5.1f} MB at most")

# %% [markdown]
# About half. But it is not done by setting a dtype and hoping. Some things have to stay in 32 bits, the loss first of
# all:

# %%
token_losses = torch.full((30_000,), 2.3)  # 30,000 targets, each with a loss of 2.3
weight, small_step, gradient = torch.tensor(1.0), torch.tensor(0.0004), torch.tensor(1e-8)
print("the sum of 30,000 losses of 2.3")
print(f"    float32 {token_losses.sum():.1f}   float16 {token_losses.half().sum()}")
print("a weight of 1 after a step of 0.0004")
print(f"    float32 {weight + small_step:.4f}    float16 {weight.half() + small_step.half():.4f}")
print("a gradient of 0.00000001")
print(f"    float32 {gradient:.1e}   float16 {gradient.half():.1e}   bfloat16 {gradient.bfloat16():.1e}")
print("the same gradient, of a loss that was multiplied by 1024 before")
print(f"    float32 {1024 * gradient:.1e}   float16 {(1024 * gradient).half():.1e}")

# %% [markdown]
# Too large, too small a step, too small a gradient: each is lost in float16. The last lines show a cure for the third,
# *loss scaling*: multiply the loss, and with it all gradients, by a large number, and divide in float32 before the
# step.
#
# Torch's `torch.autocast` does all this sorting: it multiplies matrices in 16 bits and keeps the loss in 32. It pays on
# hardware that computes in 16 bits; on most CPUs it is slower. We stay with 32.

# %% [markdown]
# ### Gradient accumulation
#
# If a batch of 64 sentences does not fit, run 8 batches of 8 and add up their gradients before the one step. Each
# small batch needs an eighth of the intermediate results, and `backward` adds to `.grad` by itself.
#
# **Spot the mistake.** "By the chain rule we simply sum the gradients of the small batches." Let us see. The same 64
# sentences, in one batch, and in 8:

# %%
torch.manual_seed(0)
model = Transformer(src_vocab=20, tgt_vocab=20, d_model=64, num_heads=4, d_ff=256, num_layers=2)
small_batches = list(translation.copy_batches(batch_size=8, steps=8, seed=1, shortest=12, longest=12))
source, targets = (torch.cat(parts) for parts in zip(*small_batches))  # (64, 13) each


def loss_of(source: Tensor, targets: Tensor) -> Tensor:
    return reference.sequence_loss(model(source, reference.shift_right(targets, 1)), targets, pad_id=0)


model.zero_grad()
loss_of(source, targets).backward()
large = model.output.weight.grad.clone()
model.zero_grad()
for batch in small_batches:
    loss_of(*batch).backward()
factor = (model.output.weight.grad / large).median()
print(f"summed over 8 batches, the gradient is {factor:.3f} times that of one batch")

# %% [markdown]
# Eight times too long, because each loss is a *mean*. The mean of the large batch is not the sum of the small means.
# Here we could divide by 8, since all sentences are equally long. In general the batches have different numbers of real
# targets, and each real target should count the same. A batch with $n_i$ of them gets the weight
#
# $$w_i = \frac{n_i}{\sum_j n_j} \qquad\qquad \nabla\mathcal{L} = \sum_i w_i\, \nabla\mathcal{L}_i$$
#
# Multiply each loss by its weight before `backward`, and the sum is right. Clear `.grad` once, at the beginning: a
# `zero_grad` in each round would throw the earlier batches away. Here, too, `reference.shift_right` and
# `reference.sequence_loss` are there for you.
#
# {{exercise accumulate_gradients}}


# %% exercise accumulate_gradients
def accumulate_gradients(model: nn.Module, batches: list[tuple[Tensor, Tensor]], bos_id: int, pad_id: int) -> float:
    """Leave in .grad what one large batch would leave, but with the memory of a small one.

    batches: pairs of source (batch, source) and targets (batch, target); widths and numbers of real targets differ.
    Each batch is run through the model once, by itself, and its memory is free again before the next one is run.
    What stood in .grad before does not count. The parameters themselves are not changed: a step comes later.
    Returns: the mean loss over all real targets of all batches, a number, without a graph behind it.
    """
    ### BEGIN SOLUTION
    model.zero_grad()
    total = sum(int((targets != pad_id).sum()) for _, targets in batches)
    mean_loss = 0.0
    for source, targets in batches:
        logits = model(source, reference.shift_right(targets, bos_id))
        share = int((targets != pad_id).sum()) / total
        loss = reference.sequence_loss(logits, targets, pad_id) * share
        loss.backward()  # adds to .grad, and frees the memory of this batch
        mean_loss += loss.item()
    return mean_loss
    ### END SOLUTION


# %% check accumulate_gradients
check(accumulate_gradients)

# %% [markdown]
# With the weights in place the gradient is that of the large batch, and the memory that of a small one:

# %%
model.zero_grad()
with reference.MemoryMeter() as at_once:
    loss_of(source, targets).backward()
large = {name: p.grad.clone() for name, p in model.named_parameters()}
model.zero_grad()
with reference.MemoryMeter() as in_parts:
    reference.accumulate_gradients(model, small_batches, bos_id=1, pad_id=0)
furthest = max((p.grad - large[name]).abs().max().item() for name, p in model.named_parameters())
print(f"largest difference of the gradients: {furthest:.1e}")
print(f"memory at most: {at_once.peak / 1e6:.1f} MB at once, {in_parts.peak / 1e6:.1f} MB in 8 parts")

# %% [markdown]
# (Not an eighth: the gradients themselves are as large as the model, however small the batch.)
#
# ### Checkpointing
#
# **Spot the mistake.** "Gradient checkpointing cuts the model into sections and computes each of them separately,
# without intermediate results."
#
# Without them there would be no gradients. What is true: of each section only its *input* is kept. When the backward
# pass arrives there, the section is run forward once more to get its intermediate results back. That trades time for
# memory and changes nothing else.

# %%
encoder = Encoder(d_model=64, num_heads=4, d_ff=256, num_layers=6, dropout=0.0, norm_first=True)


def run(checkpointing: bool) -> dict[str, Tensor]:
    """Forward and backward through 6 layers, each a section. Returns the gradients."""
    calls = []
    hooks = [layer.register_forward_pre_hook(lambda *_: calls.append(1)) for layer in encoder.layers]
    encoder.zero_grad()
    with reference.MemoryMeter() as meter:
        hidden = x
        for layer in encoder.layers:
            hidden = checkpoint(layer, hidden, mask, use_reentrant=False) if checkpointing else layer(hidden, mask)
        encoder.norm(hidden).pow(2).mean().backward()
    for hook in hooks:
        hook.remove()
    name = "only inputs kept" if checkpointing else "everything kept"
    print(f"{name:17} {meter.peak / 1e6:5.1f} MB at most, {len(calls)} times forward through a layer")
    return {name: p.grad.clone() for name, p in encoder.named_parameters()}


kept, recomputed = run(checkpointing=False), run(checkpointing=True)
print("gradients identical:", all(torch.equal(kept[name], recomputed[name]) for name in kept))

# %% [markdown]
# ## The translator
#
# Now the real thing: a black box that reads English and writes French, made of an encoder and a decoder. The sentences
# come from a small grammar (`course_lib/grammar.py`), so there are as many as we like, and we know the right answer to
# each. The grammar is small, but translating it word by word would fail:
#
# - nouns have a gender, and determiners and adjectives agree with it: *le chat noir*, *la vache noire*;
# - most adjectives stand behind the noun, some before it: *la petite voiture rouge*;
# - before a vowel some words change: *l'arbre*, *mon vieil arbre*;
# - negation has two parts, one on each side of the verb: *n'aime pas*.

# %%
data = grammar.make_data()
for pair in data.train[:4]:
    print(f"{' '.join(pair.english)}\n    → {grammar.spell(pair.french)}")
print(f"\n{len(data.train):,} sentences for training, {len(data.test):,} for testing,")
print(f"and {len(data.unseen):,} more for testing with adjective–noun pairs that never occur in the training sentences")
english, french = translation.english_vocabulary(), translation.french_vocabulary()
print(f"{len(english)} English and {len(french)} French words, PAD, BOS and EOS (ids 0, 1 and 2) among them")

# %% [markdown]
# How long shall we train? A **step** is one batch; an **epoch** is once through all the data. We draw 1000 batches of
# 64 sentences at random, which is a little more than one epoch. So the model sees most sentences once or not at all
# and can hardly learn them by heart.

# %%
STEPS, BATCH = (60 if FAST else 1000), 64
print(f"{len(data.train):,} sentences / {BATCH} = {len(data.train) / BATCH:.1f} steps an epoch; {STEPS} steps = "
      f"{STEPS * BATCH / len(data.train):.2f} epochs")  # fmt: skip
source, targets = translation.encode_pairs(data.train)
torch.manual_seed(1)
model = translation.new_translator()
untrained = translation.new_translator().eval()
print(f"source {tuple(source.shape)}, targets {tuple(targets.shape)}")
print(f"{sum(p.numel() for p in model.parameters()):,} parameters")


# %% [markdown]
# Training is `reference.fit`: it calls `train_step` on each batch, with Adam and the learning rate of the moment. After
# each step it calls `report`, here a `Progress`, which moves a bar and redraws the curve.


# %% figure
class Progress:
    """A bar that moves, and a curve that grows."""

    def __init__(self, steps: int):
        self.steps, self.losses, self.start = steps, [], time.time()
        self.figure, self.ax = plt.subplots(figsize=(7.5, 3))
        self.bar = display({"text/plain": ""}, raw=True, display_id=True)
        self.picture = display(self.figure, display_id=True)
        plt.close(self.figure)

    def __call__(self, step: int, loss: float) -> None:
        self.losses.append(loss)
        if step % 10 == 0 or step == self.steps:
            done = 40 * step // self.steps
            text = f"step {step:4d} of {self.steps}  {'█' * done}{'░' * (40 - done)}  loss {loss:7.4f}"
            self.bar.update({"text/plain": f"{text}  {time.time() - self.start:4.0f} s"}, raw=True)
        if step % 100 == 0 or step == self.steps:
            self.draw()

    def draw(self) -> None:
        self.ax.clear()
        self.ax.semilogy(range(1, len(self.losses) + 1), self.losses, linewidth=0.9)
        title = "English to French: the loss of each batch"
        self.ax.set(title=title, xlabel="step", ylabel="loss (nats a word)", xlim=(0, self.steps))
        self.picture.update(self.figure)


# %%
losses = reference.fit(
    model,
    translation.random_batches(source, targets, BATCH, STEPS, seed=1),
    rate=lambda step: reference.cosine_rate(step, STEPS, peak=3e-3, warmup=STEPS // 10),
    bos_id=translation.BOS,
    pad_id=translation.PAD,
    max_norm=1.0,
    report=Progress(STEPS),
)
print(f"loss of the first step {losses[0]:.2f}, mean of the last 20 {sum(losses[-20:]) / 20:.5f}")

# %% [markdown]
# The first loss is that of a model that guesses: $\ln 405 = 6.0$, and a little more, since it guesses at random. While
# the learning rate is still warming up it falls slowly. Then it falls by orders of magnitude (mind the scale), and at
# the end, with a learning rate near 0, it comes to rest.
#
# The loss is measured with teacher forcing. The real test is without it: the model writes by itself, on sentences
# that it has never seen. Two scores: the share of sentences that are **exactly** right, and **BLEU**, which counts
# common pieces of one to four words and is 100 for perfect ones (notebook 9 builds it). For comparison there is a
# word-for-word translation: each English word replaced by the French word that it most often goes with, in the English
# order.

# %%
dictionary: dict[str, dict[str, int]] = {}
for pair in data.train[:20_000]:
    for french_place, english_place in pair.alignment:
        counts = dictionary.setdefault(pair.english[english_place], {})
        counts[pair.french[french_place]] = counts.get(pair.french[french_place], 0) + 1
best = {word: max(counts, key=lambda form: counts[form]) for word, counts in dictionary.items()}
best |= {"the": "le", "a": "un", "an": "un", "some": "des", "any": "de", "this": "ce", "these": "ces", "my": "mon"}
best |= {"our": "notre", "do": "ne", "does": "ne", "not": "pas"} | grammar.PREPOSITIONS


def score(hypotheses: list[list[str]], pairs: list) -> str:
    references = [list(pair.french) for pair in pairs]
    return f"{100 * exact_match(hypotheses, references):5.1f} % exact   BLEU {bleu(hypotheses, references):5.1f}"


test, unseen = data.test[:500], data.unseen[:500]
print("word for word:          ", score([[best[word] for word in pair.english] for pair in test], test))
for name, pairs in (("new sentences:          ", test), ("unseen adjective + noun:", unseen)):
    exact, common = translation.translation_quality(model, pairs)
    print(f"{name} {100 * exact:5.1f} % exact   BLEU {common:5.1f}")

# %% [markdown]
# The last line is the interesting one. Each of these sentences has an adjective beside a noun with which it never
# stood in training, and yet the model puts it into its place and its form. It has learned rules, and not only phrases.
#
# Try sentences of your own (the words have to be among `english.words`):

# %%
sentences = [
    "the small black cat sees our old trees",
    "this happy woman does not follow a dangerous horse",
    "our kind engineers repair the beautiful white boat on a quiet island",
    "the cat is not on the mat",
]
for sentence, result in zip(sentences, translation.translate(model, sentences)):
    print(f"{sentence}\n    → {result}")

# %% [markdown]
# ## One sentence, from end to end
#
# What happens to one sentence on its way? First the shapes: words, ids, memory, logits, probabilities.

# %%
source_words = "the cat sees a white mouse on the chair".split()
target_words = "le chat voit une souris blanche sur la chaise".split()
ids, wanted = english.encode(source_words)[None], french.encode(target_words)[None]  # (1, 10) each, EOS at the end
given = reference.shift_right(wanted, translation.BOS)
with torch.no_grad():
    memory = model.encode(ids)
    logits = model.decode(given, memory, ids)
print("source words    ", " ".join(source_words), "<eos>")
print("source ids      ", ids[0].tolist())
print("memory          ", tuple(memory.shape), "  one vector for each source word, made by the encoder")
print("given ids       ", given[0].tolist())
print("logits          ", tuple(logits.shape), "  one number for each French word, at each of the positions")
print("targets         ", wanted[0].tolist())

# %% [markdown]
# A softmax of the logits, and at each position the probability of the word that is asked for; before training and
# after.

# %%
with torch.no_grad():
    before = untrained(ids, given).softmax(dim=-1)[0]  # (time, vocab)
after = logits.softmax(dim=-1)[0]
print(f"{'given':12} {'asked for':12} {'p untrained':>12} {'p trained':>10}   the trained model says")
for t, target in enumerate(wanted[0].tolist()):
    print(f"{french.words[given[0, t]]:12} {french.words[target]:12} {before[t, target]:12.5f} {after[t, target]:10.5f}"
          f"   {french.words[int(after[t].argmax())]}")  # fmt: skip
for name, p in (("untrained", before), ("trained", after)):
    print(f"loss {name:10} {-p[range(len(p)), wanted[0]].log().mean():.4f}")

# %% [markdown]
# Untrained, each of 405 words has a probability around $1/405 = 0.0025$. Trained, the model is nearly certain at every
# position, also of *une*: for that it has to know the gender of *souris*, a noun that it has not yet written.

# %% [markdown]
# ## Where it looks
#
# The cross-attention says which English words the decoder looks at while it writes. Nobody told it; there was only
# the loss. The grammar knows which French word stands for which English one, so we can compare.
#
# One thing to get right: which row belongs to which word? The row at position $t$ is computed while the decoder stands
# on the word *before* and decides what comes next. So it belongs to the word that it **predicts**, `targets[t]`.

# %%
test_source, test_targets = translation.encode_pairs(data.test)
with torch.no_grad():
    weights = cross_attention_weights(model, test_source, reference.shift_right(test_targets, translation.BOS))
weights = weights.mean(dim=2)  # (layer, pair, target, source), the mean over heads
links = [(row, i, j) for row, pair in enumerate(data.test) for i, j in pair.alignment]
rows, french_places, english_places = torch.tensor(links).T  # nouns, adjectives and verbs


def share_right(looked_at: Tensor) -> float:
    return (looked_at == english_places).float().mean().item()


layers = [share_right(layer[rows, french_places].argmax(dim=-1)) for layer in weights]
best_layer = max(range(len(layers)), key=lambda i: layers[i])
later = weights[best_layer][rows, french_places + 1].argmax(dim=-1)
for i, right in enumerate(layers):
    print(f"layer {i}: looks at the right word for {100 * right:.1f} % of {len(links)} nouns, adjectives and verbs")
print(f"the diagonal (same place in both):           {100 * share_right(french_places):.1f} %")
print(f"layer {best_layer}, read one step too late:              {100 * share_right(later):.1f} %")

# %% [markdown]
# Drawn for one sentence: rows are French words as they are being written, columns English words as they are read. A
# square marks what the grammar says.

# %%
chosen = next(i for i, pair in enumerate(data.test) if "not" in pair.english and 10 <= len(pair.french) <= 12
              and len({j - i for i, j in pair.alignment}) > 2)  # fmt: skip
pair = data.test[chosen]
shown = weights[best_layer, chosen, : len(pair.french) + 1, : len(pair.english) + 1]
figure, ax = plt.subplots(figsize=(7.6, 5.6))
show_matrix(
    shown, f"Cross-attention of layer {best_layer}, mean over heads", rows="French word that is being predicted",
    columns="English word", row_names=[*pair.french, "<eos>"], column_names=[*pair.english, "<eos>"], limits=(0, 1),
    numbers=False, colourbar=True, ax=ax,
)  # fmt: skip
for i, j in pair.alignment:
    ax.add_patch(plt.Rectangle((j - 0.42, i - 0.42), 0.84, 0.84, fill=False, edgecolor=COLOURS[1], linewidth=2))
ax.plot([], [], "s", markerfacecolor="none", markeredgecolor=COLOURS[1], markersize=10, label="the grammar's alignment")
ax.legend(loc="upper right", fontsize=8)
plt.show()

# %% [markdown]
# Where French turns the order around, the bright squares leave the diagonal. The little words are less clear-cut: to
# write *le* the decoder looks at *the* and at the word behind it. That word can tell it about the noun's gender, since
# the encoder has let all the words look at each other before.
#
# Do not read too much into such pictures. Here the mean over the heads of a layer aligns well; single heads divide the
# work differently after each training. And what is looked at is not all that decides: notebook 1 showed weights that
# change nothing.

# %% [markdown]
# ## Pre-training, then fine-tuning
#
# Training from nothing is expensive. So today one mostly **pre-trains** a model once, on much data and a general task,
# and **fine-tunes** it: training goes on, with a smaller learning rate, on a little data for the task at hand. Suppose
# somebody wants their French in the style of a telegram, without determiners, and has only 500 examples. We start once
# from the translator that comes with the course (trained like yours above) and once from nothing, with the same 60
# steps.

# %%
DETERMINERS = set("le la l' les un une des de d' ce cet cette ces mon ma mes notre nos".split())


def telegram(pairs: list) -> list:
    shortened = [tuple(word for word in pair.french if word not in DETERMINERS) for pair in pairs]
    return [grammar.Pair(pair.english, french, (), frozenset()) for pair, french in zip(pairs, shortened)]


few, exam = telegram(data.train[:500]), telegram(data.test[:200])
few_source, few_targets = translation.encode_pairs(few)
fine_steps = 10 if FAST else 60


def fine_tune(start: Transformer, peak: float) -> None:
    batches = translation.random_batches(few_source, few_targets, BATCH, fine_steps, seed=2)
    rate = partial(reference.cosine_rate, steps=fine_steps, peak=peak, warmup=5)
    reference.fit(start, batches, rate, translation.BOS, translation.PAD)


def report_telegrams(name: str, writer: Transformer) -> None:
    exact, common = translation.translation_quality(writer, exam)
    example = translation.translate(writer, sentences[:1])[0]
    print(f"{name:13} {100 * exact:5.1f} % exact   BLEU {common:5.1f}   {example}")


torch.manual_seed(3)
pretrained, from_nothing = translation.load_translator(), translation.new_translator()
report_telegrams("pre-trained", pretrained)
fine_tune(pretrained, peak=1e-3)
report_telegrams("fine-tuned", pretrained)
fine_tune(from_nothing, peak=3e-3)
report_telegrams("from nothing", from_nothing)

# %% [markdown]
# Before fine-tuning the translator knows French and nothing of telegrams. 60 steps teach it the new style. In the same
# 60 steps a model that starts from nothing does not even learn which word stands for which. BERT and GPT are the same
# idea on a large scale: pre-trained on text alone, by guessing hidden or next words, then fine-tuned.
#
# **In your own words** (2 points, marked by hand). A friend trains a Transformer to translate. After 300 steps the
# loss is 0.002, but what the model writes is nonsense. Which mistake do you suspect, why is the loss so low
# nevertheless, and which experiment would confirm it?

# %% answer too_good_to_be_true 2 [markdown]
# ### BEGIN SOLUTION
# The decoder probably sees the token that it is asked for: the targets were given to it unshifted (or the causal mask
# is missing). Then copying the input gives a loss near 0. When the model writes by itself there is nothing to copy, and
# it has learned nothing else. Experiment: train on random targets. The loss of an honest model cannot fall below
# ln V; if it does, there is a leak. (Or: change one target and see whether the logits at that position change.)
# ### END SOLUTION

# %% [markdown]
# ## What you can do now
#
# - say what cross-entropy measures, split it into entropy and divergence, and write down its gradient
# - shift targets for teacher forcing, and recognise a loss that is too good to be true
# - average a loss over real targets only, and smooth its targets, knowing what that does and does not do
# - warm up, clip, accumulate: write a step of training line by line, each line with its reason
# - reckon and measure memory, and save it by half precision, accumulation or checkpointing
# - train a translator in a minute and a half, score it on sentences and combinations it has never seen, and check its
#   attention against the truth
#
# ### To read on
#
# - Vaswani et al., *Attention Is All You Need* (2017), section 5: how the first Transformer was trained.
# - Szegedy et al., *Rethinking the Inception Architecture* (2016): label smoothing. Müller, Kornblith and Hinton, *When
#   Does Label Smoothing Help?* (2019).
# - Papineni et al., *BLEU: a Method for Automatic Evaluation of Machine Translation* (2002).
# - Xiong et al., *On Layer Normalization in the Transformer Architecture* (2020): why post-norm needs the warm-up.
# - Chen et al., *Training Deep Nets with Sublinear Memory Cost* (2016): checkpointing. Micikevicius et al., *Mixed
#   Precision Training* (2018).
# - Devlin et al., *BERT* (2019): pre-training and fine-tuning.
