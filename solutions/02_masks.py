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
# # 2 · Masks: who may look at whom
#
# Attention lets every position look at every other one. Often that is wrong: some positions are padding, some lie in
# the future. A **mask** says which looks are allowed. You will build all the masks of a Transformer, the softmax that
# obeys them, and an instrument that shows what leaks when a mask is wrong. A wrong mask raises no error. It
# just makes a model that looks wonderful in training and is useless afterwards. About 80 minutes.

# %% setup
import math

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib import check, hint, solution
from course_lib import masks as reference
from course_lib.plotting import COLOURS, show_matrix, use_course_style

use_course_style()


def show_masks(named: dict[str, Tensor], height: float = 2.6, **options) -> None:
    """Draw masks (or other matrices with values from 0 to 1) side by side."""
    fig, axes = plt.subplots(1, len(named), figsize=(min(9, 2.6 * len(named) + 0.4), height), squeeze=False)
    for ax, (title, matrix) in zip(axes[0], named.items()):
        show_matrix(matrix.float(), title, ax=ax, limits=(0, 1), **options)
    plt.show()


# %% [markdown]
# ## 1 · Padding
#
# Sentences have different lengths, and a tensor has one. So the short ones are filled up with a **pad** token.
# Here one sentence of 4 tokens stands in a batch whose longest has 10. Six of its places mean nothing.
#
# "Then it does not matter what stands there", one might think. Let us put different numbers there and look at the
# *first* output, which belongs to a real token.

# %%
torch.manual_seed(0)
tokens = torch.randn(10, 6)  # (time, d): 4 real tokens, then 6 places of padding
everything_allowed = torch.ones(10, 10, dtype=torch.bool)


def self_attention(x: Tensor, mask: Tensor) -> Tensor:
    """Attention of a sequence to itself, without projections: q = k = v = x."""
    return reference.masked_attention(x, x, x, mask)[0]


for pad_value in (0.0, 1.0, 5.0):
    padded = tokens.clone()
    padded[4:] = pad_value
    output = self_attention(padded, everything_allowed)
    print(f"padding filled with {pad_value:g}: output of token 0 = {output[0, :3].numpy().round(3)} …")

# %% [markdown]
# The output of a real token moves with the value of the padding. Zeros do no better: a zero key has the score 0,
# and $e^0 = 1$ is a perfectly good share of the attention. Ignoring the padded *outputs* later does not help
# either: the harm is in the real ones.
#
# The cure: padded places must not be looked at. For that we have to know where they are. A sentence is described by
# its length. Position $j$ (counted from 0) of sentence $b$ is real if
#
# $$\mathrm{real}_{b j} \;=\; \big(\, j < \mathrm{length}_b \,\big)$$
#
# Throughout this course **True means: allowed**. For one sentence of length 2 in a batch of width 4, with a loop:

# %%
[j < 2 for j in range(4)]

# %% [markdown]
# {{exercise padding_mask}}
#
# Write it for a whole batch. A loop over the sentences is right. So is one comparison of all positions with all
# lengths: `torch.arange(max_len)` is a row; can the lengths be a column?


# %% exercise padding_mask
def padding_mask(lengths: Tensor, max_len: int) -> Tensor:
    """Which places of a padded batch hold a real token?

    lengths: (batch,) whole numbers, how many real tokens each sentence has. Real tokens come first, padding follows.
    Returns: (batch, max_len) boolean, True on real tokens, False on padding.
    """
    ### BEGIN SOLUTION
    positions = torch.arange(max_len)  # (max_len,)
    return positions < lengths[:, None]  # (batch, max_len)
    ### END SOLUTION


# %% check padding_mask
check(padding_mask)

# %%
lengths = torch.tensor([4, 8, 2, 6])
show_masks(
    {"padding_mask(lengths = [4, 8, 2, 6], 8)": reference.padding_mask(lengths, 8)}, rows="sentence", columns="position"
)

# %% [markdown]
# One row a sentence, yellow (1) where a token is real.
#
# > **Trap.** Do not find the padding by looking for zeros in the *embedded* input. As soon as something is added to
# > it (positions, in the next notebook) nothing is zero any more and the mask silently allows everything. Lengths, or
# > token ids, know better.
#
# ### From tokens to pairs: two designs
#
# Attention needs a truth value for each *pair*: may query $i$ look at key $j$? With 4 real tokens of 8 there are two
# ways:
#
# - **(a)** allow the pair only if both are real: hide the rows *and* the columns of the padding;
# - **(b)** allow it if the key is real: hide only columns.

# %%
real = reference.padding_mask(torch.tensor([4]), 8)[0]  # (8,)
design_a = real[:, None] & real[None, :]
design_b = real[None, :].expand(8, 8)
show_masks({"(a) hide rows and columns": design_a, "(b) hide key columns only": design_b})

# %% [markdown]
# (a) looks cleaner. But its last four rows are empty, and a softmax over nothing is $0/0$:

# %%
torch.manual_seed(1)
q, k, v = (torch.randn(8, 3, requires_grad=True) for _ in range(3))
for name, mask in {"(a)": design_a, "(b)": design_b}.items():
    scores = (q @ k.T / math.sqrt(3)).masked_fill(~mask, -math.inf)
    output = scores.softmax(dim=-1) @ v
    loss = output[:4].sum()  # only the real rows count
    (slope,) = torch.autograd.grad(loss, v)
    nan_rows = output.isnan().any(dim=-1).sum().item()
    nan_slopes = slope.isnan().sum().item()
    print(
        f"{name}: {nan_rows} of 8 output rows are NaN; loss {loss.item():.3f}; {nan_slopes} of 24 slopes of v are NaN"
    )

# %% [markdown]
# Look at the last number. The loss uses real rows only and is a fine number. Yet with (a) *every* entry of the
# gradient of $v$ is NaN: it contains $0 \cdot \mathrm{NaN}$, and that is NaN. One optimiser step, and the model is
# gone.
#
# So **(b)** is what is used: hide keys, never queries. What a padded query computes is rubbish, but nobody
# looks at it (its column is hidden in the next layer, its loss is left out), so it may be rubbish.

# %% [markdown]
# ## 2 · A softmax that obeys
#
# How do you take a key out of a softmax? Setting its *weight* to 0 afterwards is too late, as it has already taken
# part in the sum below the fraction:

# %%
scores = torch.tensor([1.0, 2.0, 0.5])
allowed = torch.tensor([True, False, True])
too_late = scores.softmax(dim=-1) * allowed
in_time = scores.masked_fill(~allowed, -math.inf).softmax(dim=-1)
print("masked after the softmax: ", too_late.numpy().round(3), " sum", round(too_late.sum().item(), 3))
print("masked before the softmax:", in_time.numpy().round(3), " sum", round(in_time.sum().item(), 3))

# %% [markdown]
# Its *score* has to be such that its exponential is 0. That is $-\infty$:
#
# $$w_{ij} \;=\; \frac{m_{ij}\, e^{s_{ij}}}{\sum_{l} m_{il}\, e^{s_{il}}}
# \qquad\text{with } m_{ij} = 1 \text{ where allowed, } 0 \text{ where hidden;}\qquad e^{-\infty} = 0 .$$
#
# `scores.masked_fill(x, value)` fills where `x` is **True**. Our masks are True where attention is *allowed*. Mind
# the `~`.
#
# What if a row hides everything? (A sentence of length 0, a left-padded batch, a badly combined mask.) Real code
# gives three different answers:

# %%
scores = torch.tensor([1.0, 2.0, 0.5, -1.0])
nothing_allowed = torch.zeros(4, dtype=torch.bool)
variants = {
    "filled with -inf": scores.masked_fill(~nothing_allowed, -math.inf).softmax(dim=-1),
    "filled with -10000": scores.masked_fill(~nothing_allowed, -1e4).softmax(dim=-1),
    "this course": reference.masked_softmax(scores[None], nothing_allowed[None])[0],
}
for name, weights in variants.items():
    print(f"{name:20s}", weights.numpy())

# %% [markdown]
# NaN poisons everything. The uniform row looks harmless, but it attends to four keys that are all *forbidden*. We
# want **zeros**: who may look at nothing learns nothing.
#
# {{exercise masked_softmax}}
#
# Three things to get right: hidden keys have weight 0 and the others sum to 1; a row without any allowed key is all
# 0; and the gradient is finite even if such a row exists. For the last one, make new tensors instead of writing into
# old ones: autograd still needs the old values. Scores may be large, between -1000 and 1000, so do not call `exp`
# yourself without care.


# %% exercise masked_softmax
def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the last axis, in which only the allowed keys take part.

    scores: (..., query, key)
    mask: boolean, broadcastable to the scores, True where attention is allowed.
    Returns: (..., query, key). A hidden key gets weight 0. A row in which nothing is allowed is all 0.
    """
    ### BEGIN SOLUTION
    visible = scores.masked_fill(~mask, -math.inf)
    weights = visible.softmax(dim=-1)
    empty = ~mask.any(dim=-1, keepdim=True)  # (..., query, 1)
    return weights.masked_fill(empty, 0.0)
    ### END SOLUTION


# %% check masked_softmax
check(masked_softmax)

# %%
torch.manual_seed(2)
scores = torch.randn(4, 6)
mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [0, 1, 0, 1, 0, 1], [0, 0, 0, 0, 0, 0]]).bool()
show_masks({"the mask": mask, "masked_softmax(scores, mask)": reference.masked_softmax(scores, mask)})

# %% [markdown]
# Every row of the right picture sums to 1, but for the last, which is 0. A hidden key's share goes to the others.
#
# ## 3 · Attention with a mask
#
# Everything else stays as it was. The mask enters at one place only, between scores and weights:
#
# $$\mathrm{Attention}(Q, K, V, M) \;=\; \mathrm{softmax}_{M}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$
#
# {{exercise masked_attention}}
#
# Use your `masked_softmax`, or `reference.masked_softmax` if yours is not finished. The scale is still there,
# and easily lost on the way. What you asked of `masked_softmax` holds here too: a query that may look at nothing gets
# weights and output 0, scores may be as large as 1000, and gradients come through. If you are stuck, run
# `hint("masked_attention")` in a new cell. After a real attempt `solution("masked_attention")` opens too.


# %% exercise masked_attention
def masked_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention in which each query sees only the keys that its row of the mask allows.

    q: (..., query, d_k); k: (..., key, d_k); v: (..., key, d_v)
    mask: boolean, broadcastable to (..., query, key), True where allowed.
    Returns: output (..., query, d_v), weights (..., query, key); both 0 for a query that may look at nothing.
    """
    ### BEGIN SOLUTION
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)  # (..., query, key)
    weights = reference.masked_softmax(scores, mask)
    return weights @ v, weights
    ### END SOLUTION


# %% check masked_attention
check(masked_attention)

# %% [markdown]
# Now the experiment from the beginning again, with design (b). Whatever the padding holds, the outputs of the
# four real tokens should not notice.

# %%
keys_only = reference.padding_mask(torch.tensor([4]), 10)  # (1, key): one row for all queries
fills = torch.linspace(-5, 5, 41)
moves = {"without a mask": [], "with the padding mask": []}
for name, mask in {"without a mask": everything_allowed, "with the padding mask": keys_only}.items():
    base = self_attention(torch.cat([tokens[:4], torch.zeros(6, 6)]), mask)[:4]
    for fill in fills:
        padded = torch.cat([tokens[:4], torch.full((6, 6), float(fill))])
        moves[name].append((self_attention(padded, mask)[:4] - base).abs().max().item())

fig, ax = plt.subplots(figsize=(6, 2.8))
for name, style in zip(moves, ("-", "--")):
    ax.plot(fills, moves[name], style, label=name)
ax.set(
    title="How far do the real outputs move with the padding?", xlabel="value in the padding", ylabel="largest change"
)
ax.legend()
plt.show()
print("largest change with the mask:", max(moves["with the padding mask"]))

# %% [markdown]
# Exactly 0. Not "small": the weight is 0, so the value is multiplied by 0.
#
# Note that this has nothing to do with *global* or *local* attention. A classifier that looks at the whole sentence
# still needs this mask as soon as its batch has padding.
#
# ### Nobody looks into another sentence
#
# A batch is many sentences at once, for speed. Do they see each other? `@` multiplies the last two axes and keeps
# the batch axis apart, so they should not. Whether an input can reach an output is a question for the **gradient**:
# if $\partial\, \mathrm{output}_i / \partial\, \mathrm{input}_j$ is exactly 0, there is no way from $j$ to $i$.
# `reference.leak_map` asks this for all pairs. Two sentences of three tokens, once right, once with the batch
# flattened by a careless `reshape`:

# %%
torch.manual_seed(3)
batch = torch.randn(6, 4)  # two sentences of 3 tokens, one below the other


def right_shape(x: Tensor) -> Tensor:
    x = x.reshape(2, 3, 4)  # (batch, time, d)
    return self_attention(x, torch.ones(3, 3).bool()).reshape(6, 4)


def careless(x: Tensor) -> Tensor:
    return self_attention(x, torch.ones(6, 6).bool())  # (batch * time, d): one long sentence


names = ["a0", "a1", "a2", "b0", "b1", "b2"]
kept, flattened = reference.leak_map(right_shape, batch), reference.leak_map(careless, batch)
show_masks(
    {"batch axis kept": kept > 0, "batch axis flattened": flattened > 0},
    rows="output",
    columns="input",
    row_names=names,
    column_names=names,
)

# %% [markdown]
# Left: sentence a and sentence b are strangers. Right: every token of a depends on every token of b. Both versions
# run, and their outputs have the same shape. Keep this instrument in mind: the **leak map** finds what no shape check
# finds.
#
# ## 4 · The future
#
# ### A language model is a product
#
# A language model gives a probability to a text. By the chain rule of probability it can do so one token at a time:
#
# $$\log p(x_1, \dots, x_n) \;=\; \sum_{t=1}^{n} \log p(x_t \mid x_1, \dots, x_{t-1})$$
#
# Each factor sees what came *before* it. For the four tokens "how are you ?", with made-up probabilities:

# %%
factors = {
    "p(how | SOS)": 1 / 2,
    "p(are | SOS how)": 1 / 4,
    "p(you | SOS how are)": 1 / 2,
    "p(?   | SOS how are you)": 1 / 1,
}
for name, p in factors.items():
    print(f"{name:26s} = {p:.2f}   log {math.log(p):7.4f}")
print(f"{'product':26s} = {math.prod(factors.values()):.4f}  sum {sum(map(math.log, factors.values())):6.4f}")

# %% [markdown]
# $1/2 \cdot 1/4 \cdot 1/2 \cdot 1 = 1/16$, and $\ln(1/16) = -2.77$, the sum of the logarithms.
#
# The first factor has nothing before it. So a special token **SOS** ("start of sentence") is put in front, and every
# token has something to be predicted from. Input and target are then the same text, shifted by one place:
#
# | position | 0 | 1 | 2 | 3 |
# |---|---|---|---|---|
# | input | SOS | how | are | you |
# | target | how | are | you | ? |
# | may see | SOS | SOS how | SOS how are | SOS how are you |
#
# All four predictions are made at once, in one pass. That is what makes training fast. But then the position that has
# to predict "are" must not see the input "are", which stands one place to its right. Otherwise it copies the answer.
# Nothing to the right may be seen; the position itself may, since its own input is already known when it predicts the
# next:
#
# $$\mathrm{allowed}_{ij} \;=\; \big(\, j \le i \,\big)$$
#
# {{exercise causal_mask}}


# %% exercise causal_mask
def causal_mask(n: int) -> Tensor:
    """May position i look at position j? Only if j is not in the future.

    Returns: (n, n) boolean, True where position i (row) may look at position j (column).
    """
    ### BEGIN SOLUTION
    return torch.tril(torch.ones(n, n, dtype=torch.bool))
    ### END SOLUTION


# %% check causal_mask
check(causal_mask)

# %%
words = ["SOS", "how", "are", "you"]
show_masks({"causal_mask(4)": reference.causal_mask(4)}, row_names=words, column_names=words)

# %% [markdown]
# Row 0 is `1 0 0 0`: the first position sees itself, and only itself. The hidden part is the triangle *above* the
# diagonal. (In words people say "hide the upper triangle" and "keep the lower triangle", and it is easy to mix the
# two up.)
#
# ### Four words by hand
#
# Let us follow numbers through. Four words, each a vector of 3 numbers; $W_Q = W_V = I$, so $Q = V = X$, and $W_K$ is
# not.

# %%
words = ["I", "like", "learning", "programming"]
X = torch.tensor([[0.5, 0.1, 0.3], [0.7, 0.2, 0.9], [0.6, 0.4, 0.8], [0.8, 0.3, 0.5]])
W_K = torch.tensor([[0.5, 0.1, 0.3], [0.2, 0.7, 0.1], [0.3, 0.1, 0.6]])
K = X @ W_K
scaled = X @ K.T / math.sqrt(3)
masked = scaled + reference.additive_mask(reference.causal_mask(4))
output, weights = reference.masked_attention(X, K, X, reference.causal_mask(4))
torch.set_printoptions(precision=4, sci_mode=False)
for name, matrix in {
    "K = X W_K": K,
    "Q Kᵀ / √3": scaled,
    "with the future hidden": masked,
    "weights": weights,
    "output": output,
}.items():
    print(f"{name}\n{matrix.numpy().round(4)}\n")

# %%
show_masks(
    {"scores Q Kᵀ / √3": scaled, "weights after the causal mask": weights},
    height=3.4,
    row_names=words,
    column_names=words,
)

# %% [markdown]
# Check some of it with a pencil. $K_{00} = 0.5 \cdot 0.5 + 0.1 \cdot 0.2 + 0.3 \cdot 0.3 = 0.36$. The second row of
# weights has two scores, 0.3395 and 0.7015, so its first weight is $1 / (1 + e^{0.7015 - 0.3395}) = 0.4105$. The
# first output is the first word itself: it sees nothing else.
#
# **Spot the mistake.** A text computes the softmax of the scores 0.1934, 0.3574, 0.3146, 0.3551 as 0.25, 0.298,
# 0.236, 0.216. They sum to 1. How do you see without a calculator that this is wrong?
#
# <details><summary>Answer</summary>
#
# The exponential keeps the order: a higher score means a higher weight. The fourth score is the second highest, yet
# it has the lowest weight, and the lowest score has the second highest weight. The right weights are 0.2231, 0.2628,
# 0.2518, 0.2622. "Same order as the scores" is a check you can do on any attention row. So is "each output lies
# between the smallest and the largest value of the allowed rows of $V$".
#
# </details>

# %%
torch.softmax(torch.tensor([0.1934, 0.3574, 0.3146, 0.3551]), dim=-1)

# %% [markdown]
# ### The leak map of right and wrong masks
#
# Which inputs can reach which outputs? For attention the leak map should have exactly the shape of the
# mask you meant. Here it is for the right mask and for three that people really write:

# %%
torch.manual_seed(4)
x = torch.randn(5, 4)
tried = {
    "right: tril": reference.causal_mask(5),
    "wrong: triu": torch.ones(5, 5).triu().bool(),
    "wrong: tril(1)": torch.ones(5, 5).tril(1).bool(),
    "wrong: no mask": torch.ones(5, 5).bool(),
}
fig, axes = plt.subplots(1, 4, figsize=(9, 2.6), sharey=True)
for ax, (name, mask) in zip(axes, tried.items()):
    leaks = reference.leak_map(lambda x, mask=mask: self_attention(x, mask), x)
    count = int((leaks > 0).triu(1).sum())
    title = f"{name}\n{count} leaks from the future"
    show_matrix(leaks / leaks.max(), title, ax=ax, rows="", columns="input", limits=(0, 1), numbers=False)
axes[0].set_ylabel("output")
plt.show()

# %% [markdown]
# Dark blue is exactly 0. Above the diagonal nothing may glow. The third one, off by one, is the meanest: it
# leaks precisely the token that has to be predicted. (The diagonal glows in any case, even where a mask hides it: an
# input also reaches its own output as the *query*.)
#
# ### What a leak does to training
#
# Let us train a tiny model on **random** tokens, 10 kinds, drawn anew for each batch. There is nothing to learn: the
# best honest loss is $\ln 10 = 2.303$. One model has the causal mask, the other has none.

# %%
VOCAB, LENGTH, D = 10, 8, 32
SOS = VOCAB  # one more id


class TinyModel(nn.Module):
    """One layer of attention over token and position embeddings. Just enough to cheat."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCAB + 1, D)
        self.positions = nn.Parameter(0.1 * torch.randn(LENGTH, D))
        self.q, self.k, self.v = (nn.Linear(D, D, bias=False) for _ in range(3))
        self.out = nn.Linear(D, VOCAB)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions  # (batch, time, D)
        mixed, _ = reference.masked_attention(self.q(x), self.k(x), self.v(x), mask)
        return self.out(x + mixed)  # (batch, time, VOCAB)


def losses_by_position(model: TinyModel, mask: Tensor, batch_size: int = 32) -> Tensor:
    """The loss at each position, on fresh random tokens: (time,)."""
    targets = torch.randint(VOCAB, (batch_size, LENGTH))
    inputs = torch.cat([torch.full((batch_size, 1), SOS), targets[:, :-1]], dim=1)  # shifted by one
    logits = model(inputs, mask)
    return F.cross_entropy(logits.transpose(1, 2), targets, reduction="none").mean(dim=0)


def train(mask: Tensor, steps: int = 300) -> tuple[TinyModel, list[float]]:
    torch.manual_seed(0)
    model = TinyModel()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    curve = []
    for _ in range(steps):
        losses = losses_by_position(model, mask)
        optimiser.zero_grad()
        losses.mean().backward()
        optimiser.step()
        curve.append(losses[:-1].mean().item())  # the last target is in nobody's input
    return model, curve


causal, no_mask = reference.causal_mask(LENGTH), torch.ones(LENGTH, LENGTH, dtype=torch.bool)
honest, honest_curve = train(causal)
cheat, cheat_curve = train(no_mask)

# %%
fig, ax = plt.subplots(figsize=(6, 3))
ax.plot(honest_curve, label="with the causal mask")
ax.plot(cheat_curve, label="without a mask")
ax.axhline(math.log(VOCAB), color=COLOURS[7], linestyle=":", label="ln 10: the best that is possible")
ax.set(title="Training on random tokens", xlabel="step", ylabel="loss, positions 0 to 6")
ax.legend(loc="center right")
plt.show()

with torch.no_grad():
    torch.manual_seed(1)
    for name, model, mask in [
        ("honest, in training", honest, causal),
        ("cheat,  in training", cheat, no_mask),
        ("cheat,  generating ", cheat, causal),
    ]:
        losses = losses_by_position(model, mask, batch_size=2000)
        print(f"{name}: positions 0 to 6: {losses[:-1].mean():.4f}    last position: {losses[-1]:.4f}")

# %% [markdown]
# The model without a mask gets random tokens right almost perfectly. It has learned to copy from one place to the
# right. Only the *last* target is in nobody's input, and there it does not beat $\ln 10$. And when it has to
# generate, the place to the right does not exist yet (third line): it is far worse than guessing.
#
# So the mask is there to make training the same situation as generating, left to right. And remember the
# symptom: **a loss that falls to nearly 0 is no triumph; look for the leak**. Training on random tokens is a good
# test of any model: it must not get below $\ln V$.
#
# **In your own words** (2 points, marked by hand). A friend shows you a decoder with a training loss of 0.003 and
# asks why its generated texts are nonsense. What do you ask to see first, and why can one wrong mask explain both?

# %% answer why_low_loss 2 [markdown]
# ### BEGIN SOLUTION
# I ask to see the causal mask (or a leak map: the gradient of each output with respect to each input). Without a
# causal mask, or with one that is inverted or off by one, a position sees in its input the very token it has to
# predict. It learns to copy it, so the training loss falls to nearly 0. In generation that token does not exist yet,
# and the model has never learned to predict it from the past, so the text is nonsense.
# ### END SOLUTION

# %% [markdown]
# ### Why the encoder has no causal mask
#
# The encoder reads a source that is completely known before anything is generated. Nobody asks it to predict its own
# next word, so nothing can be given away. With a causal mask it would still run, but the first word would be encoded
# without knowing the rest of its sentence: a loss of information, for no gain. The encoder gets the padding mask
# alone.
#
# ## 5 · The decoder needs both
#
# The decoder reads the target, which has padding *and* a future:
#
# $$\mathrm{allowed}_{bij} \;=\; \big(\, j < \mathrm{length}_b \,\big) \;\wedge\; \big(\, j \le i \,\big)$$
#
# Two masks, two shapes: `(batch, key)` and `(query, key)`. Broadcasting lines shapes up from the *right*, so the
# first one needs an axis of length 1 in the place of the queries.
#
# {{exercise decoder_mask}}
#
# Hide keys only. The formula holds for padded queries too: they see the real tokens, so that no row is empty.


# %% exercise decoder_mask
def decoder_mask(lengths: Tensor, n: int) -> Tensor:
    """For a decoder's self-attention: neither the future nor padding may be looked at.

    Only keys are hidden. The row of a padded query follows the same rule: it sees real tokens and no padding.

    lengths: (batch,) real tokens of each sentence, at least 1; n: the padded length.
    Returns: (batch, n, n) boolean, True where key j is a real token and j <= i.
    """
    ### BEGIN SOLUTION
    real_keys = reference.padding_mask(lengths, n)[:, None, :]  # (batch, 1, key)
    past = reference.causal_mask(n)  # (query, key)
    return real_keys & past  # (batch, query, key)
    ### END SOLUTION


# %% check decoder_mask
check(decoder_mask)

# %%
three = reference.decoder_mask(torch.tensor([6, 4, 2]), 6)
show_masks({f"sentence {b}: length {length}": three[b] for b, length in enumerate((6, 4, 2))})

# %% [markdown]
# Look closely: in the rows of *real* queries the padding mask changes nothing. With the padding on the right,
# everything left of a real query is real. So is the padding mask superfluous here? Only as long as the padding stays
# on the right. Generation with a batch often pads on the **left**, so that all sentences end at the same place. Then
# causal alone is not enough:

# %%
torch.manual_seed(5)
sentence, pads = torch.randn(3, 4), torch.full((2, 4), 2.0)
alone = self_attention(sentence, reference.causal_mask(3))
right = self_attention(torch.cat([sentence, pads]), reference.causal_mask(5))[:3]
left = self_attention(torch.cat([pads, sentence]), reference.causal_mask(5))[2:]
real_keys = torch.tensor([False, False, True, True, True])
left_masked = self_attention(torch.cat([pads, sentence]), reference.causal_mask(5) & real_keys)[2:]
for name, result in {
    "right padding, causal only": right,
    "left padding, causal only": left,
    "left padding, causal and padding": left_masked,
}.items():
    print(f"{name:34s} real outputs differ from the unpadded sentence by {(result - alone).abs().max().item():.2f}")

# %% [markdown]
# Note also that with left padding the first queries have an empty row even with design (b): the first pad sees only
# itself, and it is hidden. That is where `masked_softmax` earns its zeros.
#
# ### The loss on padded targets
#
# What padded *queries* produce is rubbish, as we said, and must not be trained on. `cross_entropy` leaves out the
# targets that equal `ignore_index`:

# %%
torch.manual_seed(6)
PAD = 0
logits = torch.randn(6, 5)  # (time, vocab)
targets = torch.tensor([3, 1, 4, 2, PAD, PAD])
print("all six places:          ", round(F.cross_entropy(logits, targets).item(), 4))
print("ignore_index=PAD:        ", round(F.cross_entropy(logits, targets, ignore_index=PAD).item(), 4))
print("the four real ones alone:", round(F.cross_entropy(logits[:4], targets[:4]).item(), 4))
print("nothing but padding:     ", F.cross_entropy(logits[4:], targets[4:], ignore_index=PAD).item())

# %% [markdown]
# The second and third lines agree. The fourth is a mean over nothing. Padding thus needs two cures: the *mask*
# keeps it out of the keys, `ignore_index` keeps it out of the loss. Neither replaces the other.
#
# ## 6 · Cross-attention
#
# When the decoder looks at the source, queries come from the target and keys from the source. Say that the source is
# audio: 600 frames of a recording, padded to 800, and the target has 8 tokens. The last 200 frames must be hidden
# from every query. There is no causal mask: the recording is complete before the first word is written down. And the
# padding of the *target* is on the query side, so it does not matter.
#
# $$\mathrm{allowed}_{bij} \;=\; \big(\, j < \ell_b \,\big)
# \qquad \text{where } \ell_b \text{ is the real length of source } b$$
#
# {{exercise cross_mask}}


# %% exercise cross_mask
def cross_mask(key_lengths: Tensor, query_len: int, key_len: int) -> Tensor:
    """For cross-attention: every target position sees every real source position.

    key_lengths: (batch,) real source positions; key_len: their padded number; query_len: number of target positions.
    Returns: (batch, query_len, key_len) boolean, True where the key is real. (batch, 1, key_len) is as good.
    """
    ### BEGIN SOLUTION
    real_keys = reference.padding_mask(key_lengths, key_len)[:, None, :]  # (batch, 1, key)
    return real_keys.expand(-1, query_len, -1)  # (batch, query, key)
    ### END SOLUTION


# %% check cross_mask
check(cross_mask)

# %%
audio = reference.cross_mask(torch.tensor([600, 800]), 8, 800)
fig, axes = plt.subplots(1, 2, figsize=(8, 2.4))
for ax, mask, frames in zip(axes, audio, (600, 800)):
    show_matrix(
        mask.float(),
        f"{frames} of 800 frames are real",
        ax=ax,
        rows="target token",
        columns="audio frame",
        limits=(0, 1),
    )
plt.show()

# %% [markdown]
# Vertical edges only. If you see a staircase in a cross mask, somebody has put a causal mask where it does not
# belong.
#
# The three masks of a Transformer, then:
#
# | where | hides | your function |
# |---|---|---|
# | encoder self-attention | padded keys | `padding_mask(...)[:, None, :]` |
# | decoder self-attention | padded keys and the future | `decoder_mask` |
# | cross-attention | padded keys of the source | `cross_mask` |
#
# ## 7 · True means allowed. Or hidden.
#
# Our masks are True where attention is allowed. torch itself has both conventions:
#
# | function | argument | True means |
# |---|---|---|
# | `F.scaled_dot_product_attention` | `attn_mask` | **allowed** |
# | `nn.MultiheadAttention` | `attn_mask`, `key_padding_mask` | **hidden** |
# | `nn.TransformerEncoderLayer` and its relatives | `src_mask`, `src_key_padding_mask`, … | **hidden** |
# | `Tensor.masked_fill` | `mask` | is filled, so **hidden** |
#
# Conversion is one sign: `~mask`. Forgetting it raises no error. **Bug hunt**: four calls, each meant to be causal.
# Which are right? Decide from the code, then look at the leak maps.

# %%
torch.manual_seed(7)
multi_head = nn.MultiheadAttention(embed_dim=4, num_heads=2, batch_first=True)
mask = reference.causal_mask(5)
calls = {
    "A": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], attn_mask=mask)[0],
    "B": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], attn_mask=~mask)[0],
    "C": lambda x: multi_head(x[None], x[None], x[None], attn_mask=mask)[0][0],
    "D": lambda x: multi_head(x[None], x[None], x[None], attn_mask=~mask)[0][0],
}

# %%
fig, axes = plt.subplots(1, 4, figsize=(9, 2.6), sharey=True)
for ax, (name, call) in zip(axes, calls.items()):
    leaks = reference.leak_map(call, x)
    nan_rows = int(call(x).isnan().any(dim=-1).sum())
    title = f"{name}\nNaN output rows: {nan_rows}"
    show_matrix((leaks > 0).float(), title, ax=ax, rows="", columns="input", limits=(0, 1), numbers=False)
    if leaks.isnan().all():
        ax.text(2, 2, "every gradient is NaN", ha="center", va="center", color="white")
axes[0].set_ylabel("output")
plt.show()

# %% [markdown]
# <details><summary>Answer</summary>
#
# A and D are right. B and C have the polarity wrong: a row sees its future and not its past (what glows on the
# diagonal of B is the query). The last row has no future, and so no key at all. There `scaled_dot_product_attention`
# gives zeros in this version of torch. `nn.MultiheadAttention` gives NaN, in one row of five, and on the way back
# that NaN spoils every gradient, as it did in design (a).
#
# </details>
#
# Three more traps of the same kind:
#
# 1. **The fourth argument.** `multi_head(x, x, x, m)` does not mean `attn_mask=m`. The fourth parameter is
#    `key_padding_mask`, of shape `(batch, key)`. If batch and length differ, torch refuses it. If they
#    happen to be equal, nothing complains:

# %%
torch.manual_seed(8)
square = torch.randn(4, 4, 4)  # batch 4, time 4: an unlucky coincidence
hide_future = ~reference.causal_mask(4)
wrong_output, wrong_weights = multi_head(square, square, square, hide_future)
right_output, right_weights = multi_head(square, square, square, attn_mask=hide_future)
show_masks({"by name: attn_mask=…": right_weights[0], "by position: fourth argument": wrong_weights[0]})
print("largest difference of the outputs:", round((wrong_output - right_output).abs().max().item(), 2))

# %% [markdown]
# On the right all queries of sentence 0 look at key 0 alone: row 0 of the causal mask was taken for its *padding*.
# Pass masks by name.
#
# 2. **The axis of the heads.** With heads, scores are `(batch, head, query, key)`. A mask `(batch, query, key)` does
#    not line up with that: it needs an axis for the heads, `mask[:, None]`. Without it you get an error, unless
#    `batch` happens to equal the number of heads. Then it *silently* means something else: head $h$ of every sentence
#    gets the mask of sentence $h$.

# %%
torch.manual_seed(10)
mask = reference.decoder_mask(torch.tensor([6, 4, 2]), 6)  # (batch 3, query 6, key 6)
q, k, v = (torch.randn(3, 2, 6, 4) for _ in range(3))  # (batch 3, head 2, time 6, d_k 4)
try:
    reference.masked_attention(q, k, v, mask)
except ValueError as error:
    print("2 heads:", error)
q, k, v = (torch.randn(3, 3, 6, 4) for _ in range(3))  # 3 heads, and a batch of 3
wrong, right = reference.masked_attention(q, k, v, mask)[0], reference.masked_attention(q, k, v, mask[:, None])[0]
print("3 heads: no error, and outputs that differ by", round((wrong - right).abs().max().item(), 2))

# %% [markdown]
# 3. **`~` on whole numbers.** Keep masks boolean. With 0 and 1 as integers `~` flips bits, and both results count as
#    True:

# %%
as_integers = torch.tensor([1, 0])
print("~ of integers:", (~as_integers).tolist(), "→ as truth values", (~as_integers).bool().tolist())
print("~ of booleans:", (~as_integers.bool()).tolist())

# %% [markdown]
# ## 8 · Masks to be added
#
# Formulas, papers and much fast code write the mask as a matrix of numbers that is *added* to the scores:
#
# $$\mathrm{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}} + M\right) V
# \qquad M_{ij} = \begin{cases} 0 & \text{allowed} \\ -\infty & \text{hidden} \end{cases}$$
#
# $$\text{causal, } n = 4:\qquad
# M = \begin{pmatrix} 0 & -\infty & -\infty & -\infty \\ 0 & 0 & -\infty & -\infty \\
# 0 & 0 & 0 & -\infty \\ 0 & 0 & 0 & 0 \end{pmatrix}$$
#
# It says the same as filling: $s + 0 = s$, and $s + (-\infty) = -\infty$. A float mask is read this way by both
# `scaled_dot_product_attention` and `nn.MultiheadAttention`: here the two agree.
#
# {{exercise additive_mask}}
#
# Instead of $-\infty$ you may use a number that is negative *and large in size* ("a very small number" is
# a bad name for it: $10^{-9}$ is very small). It has to work for scores up to 1000 in size.


# %% exercise additive_mask
def additive_mask(mask: Tensor) -> Tensor:
    """The same mask as numbers to be added to the scores.

    mask: (...) boolean, True where attention is allowed.
    Returns: (...) floating point, 0 where allowed; where hidden, -inf or so negative that scores between -1000 and
    1000 cannot make up for it.
    """
    ### BEGIN SOLUTION
    return torch.zeros(mask.shape).masked_fill(~mask, -math.inf)
    ### END SOLUTION


# %% check additive_mask
check(additive_mask)

# %% [markdown]
# Which number, then? Here are four, for three situations: an ordinary row, a row in which everything is hidden,
# and half precision (float16, whose largest number is 65504):

# %%
row = torch.tensor([2.0, 1.0, 3.0])


def filled(row: Tensor, hidden: list[bool], fill: float) -> str:
    """The softmax of the row with the hidden scores filled, as text; or the error."""
    try:
        weights = row.masked_fill(torch.tensor(hidden), fill).softmax(dim=-1)
    except RuntimeError as error:
        return f"error: {error}"
    return " ".join(f"{w:.6f}" for w in weights.tolist())


print(f"{'fill':>8}   {'last two hidden':29}{'all hidden':29}last two hidden, float16")
for fill in (-math.inf, -1e9, -1e4, -10.0):
    ordinary, empty = filled(row, [False, True, True], fill), filled(row, [True, True, True], fill)
    print(f"{fill:>8g}   {ordinary:29}{empty:29}{filled(row.half(), [False, True, True], fill)}")

# %% [markdown]
# - $-\infty$: exact, works in every precision, NaN in an empty row.
# - $-10^9$: exact in float32, uniform in an empty row, **an error in float16**.
# - $-10^4$, the number in BERT's code: works in float16 too, as long as scores stay well below it in size.
# - $-10$: not zero.
#
# ## 9 · Windows, and masks of your own
#
# Any rule for who sees whom is a mask. A common one for long sequences is **local attention**: look only $r$ steps to
# both sides. The number of allowed pairs is then at most $n \cdot (2r + 1)$ instead of $n^2$.
#
# $$\mathrm{allowed}_{ij} \;=\; \big(\, |i - j| \le r \,\big)$$
#
# {{exercise window_mask}}


# %% exercise window_mask
def window_mask(n: int, radius: int) -> Tensor:
    """Local attention: a position sees those at most `radius` steps away, on both sides, and itself.

    Returns: (n, n) boolean, True where |i - j| <= radius.
    """
    ### BEGIN SOLUTION
    positions = torch.arange(n)
    distance = (positions[:, None] - positions).abs()  # (query, key)
    return distance <= radius
    ### END SOLUTION


# %% check window_mask
check(window_mask)

# %% [markdown]
# Is a position cut off from everything far away, then? Not if there are several layers. Each layer reaches $r$ steps
# further. The leak map shows it, for radius 1:

# %%
torch.manual_seed(9)
x = torch.randn(9, 4)
narrow = reference.window_mask(9, 1)


def stack(x: Tensor, mask: Tensor, depth: int) -> Tensor:
    """Several layers of attention, one after the other."""
    for _ in range(depth):
        x = self_attention(x, mask)
    return x


reach = {}
for depth in (1, 2, 4):
    leaks = reference.leak_map(lambda x, depth=depth: stack(x, narrow, depth), x)
    reach[f"layers: {depth}"] = leaks > 0
show_masks(reach, rows="output", columns="input", numbers=False)

through_three = reference.leak_map(lambda x: stack(x, reference.causal_mask(9), 3), x)
print("causal, three layers: leaks from the future:", int((through_three > 0).triu(1).sum()))
both = reference.window_mask(9, 2) & reference.causal_mask(9)
print("masks combine with &: window of 2 and causal, row 6 =", both[6].int().tolist())
print("pairs at n = 1000: all", 1000**2, "· window of 2:", reference.window_mask(1000, 2).sum().item())

# %% [markdown]
# With the causal mask nothing comes back from the future through any number of layers, because every single step
# only leads to the left.
#
# > **A word with two meanings.** BERT's "masked language model" hides *tokens*: some inputs are replaced by a token
# > `[MASK]` and have to be guessed. Nothing is hidden from attention there; every position sees both sides. It is a
# > training task, not an attention mask.
#
# ## What you can do now
#
# - build the padding, causal, decoder, cross and window masks, and combine them with `&`;
# - apply a mask before the softmax, with zeros and finite gradients where a row is empty;
# - say why keys are hidden and queries are not, and what `ignore_index` adds to that;
# - convert between the two polarities and the additive form, and choose the fill value;
# - find a leak: with a leak map, or by training on random tokens.
#
# **To read on.** Vaswani et al. (2017), *Attention Is All You Need*, section 3.2.3, on the masks of the decoder.
# Devlin et al. (2018), *BERT*, for the other meaning of the word. Child et al. (2019), *Generating Long Sequences with
# Sparse Transformers*, and Beltagy et al. (2020), *Longformer*, for windows and other patterns.
