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
# In notebook 1 every position attended to every other one. Often that is wrong: some positions are
# {{term padding}}, others lie in the future. A **{{term mask}}** says which {{term query|queries}} may attend to which
# {{term key|keys}}. You will build every mask that a Transformer needs, a softmax that obeys them, and a tool that
# shows what leaks when a mask is wrong. You will need that tool, because a wrong mask raises no error: the model looks
# wonderful in training and is useless afterwards.

# %% setup
import math

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib import check, hint, solution, yours
from course_lib import masks as reference
from course_lib.interactive import paint_a_mask
from course_lib.plotting import COLOURS, PARTS, show_map, show_matrix, use_course_style
from course_lib.progress_bar import bar
from course_lib.settings import course_device

use_course_style()
device = course_device()


def show_masks(named: dict[str, Tensor], height: float = 2.6, **options) -> None:
    """Draw masks (or other matrices with values from 0 to 1) side by side."""
    fig, axes = plt.subplots(1, len(named), figsize=(min(9, 2.6 * len(named) + 0.4), height), squeeze=False)
    for ax, (title, matrix) in zip(axes[0], named.items()):
        show_matrix(matrix.float(), title, ax=ax, limits=(0, 1), **options)
    plt.show()


# %% figure Where this notebook is on the map
show_map("02_masks")

# %% [markdown]
# ## 1 · Padding
#
# Sentences differ in length, but the rows of a tensor do not. So short sentences are filled up with a **pad** token:
#
# | | 0 | 1 | 2 | 3 | 4 | 5 |
# |---|---|---|---|---|---|---|
# | sentence 0 | the | cat | is | on | the | mat |
# | sentence 1 | the | cat | sleeps | PAD | PAD | PAD |
#
# The last three places of sentence 1 mean nothing. Does it matter which numbers are there? Let us try three values
# and watch the output of *the*, a real {{term token}}.

# %%
torch.manual_seed(0)
tokens = torch.randn(6, 4)  # (time, feature): 3 real tokens, then 3 places of padding
everything_allowed = torch.ones(6, 6, dtype=torch.bool)


def self_attention(x: Tensor, mask: Tensor) -> Tensor:
    """Attention of a sequence to itself, without projections: q = k = v = x."""
    return reference.masked_attention(x, x, x, mask)[0]


outputs_of_the = {}
for pad_value in (0.0, 1.0, 5.0):
    padded = tokens.clone()
    padded[3:] = pad_value
    outputs_of_the[pad_value] = self_attention(padded, everything_allowed)[0]
    print(f"padding filled with {pad_value:g}: the output of 'the' is {outputs_of_the[pad_value].numpy().round(3)}")

# %% claims
spread = torch.stack(list(outputs_of_the.values()))
claim("the output of a real token depends on the padding", (spread[0] - spread[2]).abs().max() > 0.1)

# %% [markdown]
# The output of a real token depends on the value of the padding. Zeros are no better: a zero key has score 0, and
# $e^0 = 1$ counts in the softmax like any other number. Ignoring the outputs at the padded places does not help either,
# because the damage is done at the real ones.
#
# So no query may attend to a padded place, and for that we have to know where the padding is. A sentence is described
# by its length. Position $j$ (counted from 0) of sentence $b$ is real if
#
# $$\mathrm{real}_{b j} \;=\; \big(\, j < \mathrm{length}_b \,\big)$$
#
# Throughout this course **True means allowed**. Here is the mask of one sentence of length 3, padded to 6 places:

# %%
[j < 3 for j in range(6)]

# %% [markdown]
# {{exercise padding_mask}}
#
# Write it for a whole batch. A loop over the sentences is fine. So is a single comparison of all positions with all
# lengths: `torch.arange(max_len)` is a row. Can you make the lengths a column?


# %% exercise padding_mask
def padding_mask(lengths: Tensor, max_len: int) -> Tensor:
    """Which places of a padded batch hold a real token?

    lengths: (batch,) integers, the number of real tokens in each sentence. Real tokens come first, padding last.
    Returns: (batch, max_len) boolean, True on real tokens, False on padding.
    """
    ### BEGIN SOLUTION
    positions = torch.arange(max_len)  # (max_len,)
    return positions < lengths[:, None]  # (batch, max_len)
    ### END SOLUTION


# %% check padding_mask
check(padding_mask)

# %% figure The padding mask of four sentences
lengths = torch.tensor([4, 8, 2, 6])
show_masks({"lengths 4, 8, 2 and 6": reference.padding_mask(lengths, 8)}, rows="sentence", columns="position")

# %% [markdown]
# One row per sentence, 1 (yellow) where a token is real.
#
# > **Trap.** Do not look for padding by searching the {{term embedding|embedded}} input for zeros. As soon as something
# > is added to it (positions, in the next notebook), nothing is zero any more, and the mask silently allows everything.
# > Use the lengths or the token ids.
#
# ### From tokens to pairs: two designs
#
# Attention needs one truth value per *pair*: may query $i$ attend to key $j$? With 4 real tokens out of 8 there are
# two ways to fill that table:
#
# - **(a)** allow a pair if both are real: hide the rows *and* the columns of the padding;
# - **(b)** allow a pair if the key is real: hide columns only.

# %% figure Two designs of a padding mask for pairs
real = reference.padding_mask(torch.tensor([4]), 8)[0]  # (8,)
design_a = real[:, None] & real[None, :]
design_b = real[None, :].expand(8, 8)
show_masks({"(a) hide rows and columns": design_a, "(b) hide key columns only": design_b})

# %% [markdown]
# Design (a) looks cleaner. But its last four rows are empty, and a softmax over nothing is $0/0$:

# %%
torch.manual_seed(1)
q, k, v = (torch.randn(8, 3, requires_grad=True) for _ in range(3))
nan_slopes = {}
for name, mask in {"(a)": design_a, "(b)": design_b}.items():
    scores = (q @ k.T / math.sqrt(3)).masked_fill(~mask, -math.inf)
    output = scores.softmax(dim=-1) @ v
    loss = output[:4].sum()  # only the real rows count
    (slope,) = torch.autograd.grad(loss, v)
    nan_rows, nan_slopes[name] = output.isnan().any(dim=-1).sum().item(), slope.isnan().sum().item()
    print(
        f"{name}: NaN in {nan_rows} of 8 output rows; loss {loss:.3f}; NaN in {nan_slopes[name]} of 24 gradients of v"
    )

# %% claims
claim("design (a) turns the whole gradient of v into NaN, design (b) none of it", nan_slopes == {"(a)": 24, "(b)": 0})

# %% [markdown]
# Look at the last number. The {{term loss}} uses only real rows and is an ordinary number. Yet with (a) *every* entry
# of the {{term gradient}} of $v$ is NaN: it contains $0 \cdot \mathrm{NaN}$, which is NaN. One step of the
# {{term optimiser}} later the model is full of NaN.
#
# So **(b)** is what people use: hide keys, never queries. What a padded query computes is meaningless, but nothing
# reads it: its column is hidden in the next layer, and its loss is left out.

# %% [markdown]
# ## 2 · A softmax that obeys
#
# How do you take a key out of a {{term softmax}}? Setting its *weight* to 0 afterwards is too late. By then it has
# already contributed to the denominator:

# %%
scores = torch.tensor([1.0, 2.0, 0.5])
allowed = torch.tensor([True, False, True])
too_late = scores.softmax(dim=-1) * allowed
in_time = scores.masked_fill(~allowed, -math.inf).softmax(dim=-1)
print("masked after the softmax: ", too_late.numpy().round(3), " sum", round(too_late.sum().item(), 3))
print("masked before the softmax:", in_time.numpy().round(3), " sum", round(in_time.sum().item(), 3))

# %% claims
claim("masked afterwards, the weights do not sum to 1", too_late.sum() < 0.9 and abs(in_time.sum() - 1) < 1e-6)

# %% [markdown]
# Instead, give the key a {{term score}} whose exponential is 0. That score is $-\infty$:
#
# $$w_{ij} \;=\; \frac{a_{ij}\, e^{s_{ij}}}{\sum_{l} a_{il}\, e^{s_{il}}}
# \qquad\text{with } a_{ij} = 1 \text{ where allowed, } 0 \text{ where hidden;}\qquad e^{-\infty} = 0 .$$
#
# `scores.masked_fill(x, value)` fills where `x` is **True**. Our masks are True where attention is *allowed*, so mind
# the `~`.
#
# What if a row hides everything? It happens: a sentence of length 0, a batch padded on the left, two masks badly
# combined. Real code gives three different answers:

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

# %% claims
by_inf, by_number, ours = variants.values()
claim(
    "an empty row: NaN, uniform, zeros", bool(by_inf.isnan().all()) and len(by_number.unique()) == 1 and not ours.any()
)

# %% [markdown]
# NaN spreads to everything it touches. The uniform row looks harmless, but it attends to four *forbidden* keys. We
# want **zeros**: a query that may attend to nothing gets nothing.
#
# {{exercise masked_softmax}}
#
# Three things must hold. Hidden keys have weight 0 and the others sum to 1. A row with no allowed key is all 0. And the
# gradient is finite even if there is such a row: make new tensors instead of overwriting old ones, because autograd
# still needs the old values. Scores may be large, from -1000 to 1000, so be careful if you call `exp` yourself.


# %% exercise masked_softmax
def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the last axis, restricted to the allowed keys.

    scores: (..., query, key)
    mask: boolean, broadcastable to the scores, True where attention is allowed.
    Returns: (..., query, key). A hidden key gets weight 0. A row in which nothing is allowed is all 0. Gradients are
    finite, in such a row too. A score may be 1000 or -1000, and nothing may overflow.
    """
    ### BEGIN SOLUTION
    visible = scores.masked_fill(~mask, -math.inf)
    weights = visible.softmax(dim=-1)
    empty = ~mask.any(dim=-1, keepdim=True)  # (..., query, 1)
    return weights.masked_fill(empty, 0.0)
    ### END SOLUTION


# %% check masked_softmax
check(masked_softmax)

# %% figure A mask, and the weights it leaves
torch.manual_seed(2)
scores = torch.randn(4, 6)
mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [0, 1, 0, 1, 0, 1], [0, 0, 0, 0, 0, 0]]).bool()
show_masks({"the mask": mask, "masked_softmax(scores, mask)": reference.masked_softmax(scores, mask)})

# %% [markdown]
# On the right every row sums to 1 except the last, which is 0. The share of a hidden key goes to the allowed ones.
#
# ## 3 · Attention with a mask
#
# Nothing else changes. The mask enters at a single point, between the scores and the weights:
#
# $$\mathrm{Attention}(Q, K, V, M) \;=\; \mathrm{softmax}_{M}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$

# %% figure Scaled dot-product attention, now with a mask
fig, ax = plt.subplots(figsize=(5.8, 5))
steps = {
    (1.7, 1): "matrix product", (1.7, 2): r"divide by $\sqrt{d_k}$", (1.7, 3): "hide what the mask forbids",
    (1.7, 4): "softmax of each row", (3.4, 5): "matrix product",
}  # fmt: skip
for (x, y), text in steps.items():
    part, colour = ("mask", "white") if "mask" in text else ("attention", "black")
    frame = {"boxstyle": "round,pad=0.35", "facecolor": PARTS[part], "edgecolor": "none"}
    ax.text(x, y, text, ha="center", va="center", color=colour, bbox=frame)
for x, y, text in ((0.7, 0, "$Q$"), (2.7, 0, "$K$"), (4.9, 0, "$V$"), (-1.3, 3, "mask\n$(n, m)$"), (3.4, 6, "output")):
    ax.text(x, y, text, ha="center", va="center")
arrows = {
    ((0.7, 0.2), (1.3, 0.72)): "$(n, d_k)$", ((2.7, 0.2), (2.1, 0.72)): "$(m, d_k)$",
    ((1.7, 1.28), (1.7, 1.72)): "", ((1.7, 2.28), (1.7, 2.72)): "scores $(n, m)$", ((1.7, 3.28), (1.7, 3.72)): "",
    ((1.7, 4.28), (2.9, 4.72)): "weights $(n, m)$", ((4.9, 0.2), (3.8, 4.72)): "$(m, d_v)$",
    ((3.4, 5.28), (3.4, 5.8)): "$(n, d_v)$", ((-0.85, 3), (0.35, 3)): "",
}  # fmt: skip
for (start, end), shape in arrows.items():
    ax.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": "0.3"})
    left = shape in ("$(n, d_k)$", "weights $(n, m)$")
    x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    ax.text(x - 0.35 if left else x + 0.15, y, shape, ha="right" if left else "left", va="center", fontsize=8)
ax.set(xlim=(-2, 5.6), ylim=(-0.3, 6.3), title="n queries, m keys and values")
ax.axis("off")
plt.show()

# %% [markdown]
# {{exercise masked_attention}}
#
# Use your `masked_softmax`, or `reference.masked_softmax` if yours is not finished. Do not lose the scale on the way.
# What held for `masked_softmax` holds here too: a query that may attend to nothing gets weights and output 0, scores
# may be as large as 1000, and gradients pass through. If you are stuck, run `hint("masked_attention")` in a new cell.
# Once you have tried, `solution("masked_attention")` opens too.


# %% exercise masked_attention
def masked_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention in which each query sees only the keys that its row of the mask allows.

    q: (..., query, d_k); k: (..., key, d_k); v: (..., key, d_v)
    mask: boolean, broadcastable to (..., query, key), True where allowed.
    Returns: output (..., query, d_v), weights (..., query, key); both are 0 for a query that may attend to nothing.
    Gradients are finite, for such a query too. A score may be 1000 or -1000, and nothing may overflow.
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
# Now repeat the first experiment, with your own attention and with design (b). Whatever the padding holds, the outputs
# of the three real tokens should not change.

# %%
attend = yours("masked_attention", masked_attention)
keys_only = reference.padding_mask(torch.tensor([3]), 6)  # (1, key): one row for all queries
fills = torch.linspace(-5, 5, 41)
changes = {}
for name, mask in {"without a mask": everything_allowed, "with the padding mask": keys_only}.items():
    outputs = []
    for fill in fills.tolist():
        x = torch.cat([tokens[:3], torch.full((3, 4), fill)])
        outputs.append(attend(x, x, x, mask)[0][:3])
    changes[name] = [(output - outputs[20]).abs().max().item() for output in outputs]  # compared with padding of 0
print("largest change with the mask:", max(changes["with the padding mask"]))

# %% claims
claim("with the padding mask nothing moves at all", max(changes["with the padding mask"]) == 0)
claim("without it, outputs move a lot", max(changes["without a mask"]) > 1)

# %% figure How much do the real outputs depend on the padding?
fig, ax = plt.subplots(figsize=(6, 2.8))
for name, style in zip(changes, ("-", "--")):
    ax.plot(fills, changes[name], style, label=name)
ax.set(title="outputs of the real tokens", xlabel="value of the padding", ylabel="largest change")
ax.legend()
plt.show()

# %% [markdown]
# Exactly 0, not just small: the padded values are multiplied by a weight of 0. A classifier that attends to the whole
# sentence needs this mask just as much, as soon as its batches contain padding.
#
# ### Sentences of a batch do not see each other
#
# A batch holds many sentences, for speed. Can they see each other? `@` multiplies the last two axes and keeps the batch
# axis apart, so they should not. Whether an input can reach an output is a question for the **gradient**: if
# $\partial\, \mathrm{output}_i / \partial\, \mathrm{input}_j$ is exactly 0, then input $j$ does not influence output
# $i$. `reference.leak_map` answers this for all pairs. Here are two sentences of three tokens, once with a batch axis
# and once without it, as after a careless `reshape`:

# %%
torch.manual_seed(3)
batch = torch.randn(6, 4)  # two sentences of 3 tokens, one below the other


def right_shape(x: Tensor) -> Tensor:
    x = x.reshape(2, 3, 4)  # (batch, time, feature)
    return self_attention(x, torch.ones(3, 3).bool()).reshape(6, 4)


def careless(x: Tensor) -> Tensor:
    return self_attention(x, torch.ones(6, 6).bool())  # (batch * time, feature): one long sentence


names = ["a0", "a1", "a2", "b0", "b1", "b2"]
kept, flattened = reference.leak_map(right_shape, batch), reference.leak_map(careless, batch)
show_masks(
    {"batch axis kept": kept > 0, "batch axis flattened": flattened > 0},
    rows="output",
    columns="input",
    row_names=names,
    column_names=names,
)

# %% claims
claim("with the batch axis kept, sentences do not meet", not kept[:3, 3:].any() and not kept[3:, :3].any())
claim("flattened, every token depends on every other", bool((flattened > 0).all()))

# %% [markdown]
# Left: sentences a and b never meet. Right: every token of a depends on every token of b. Both versions run, and their
# outputs have the same shape. Remember the {{term leak map}}: it finds what no shape check can find.
#
# ## 4 · The future
#
# ### A language model is a product
#
# A {{term language model}} assigns a probability to a text. By the chain rule of probability it can do so one token at
# a time:
#
# $$\log p(x_1, \dots, x_n) \;=\; \sum_{t=1}^{n} \log p(x_t \mid x_1, \dots, x_{t-1})$$
#
# Each factor sees only what came *before* it. For "the cat is on the mat", with made-up probabilities:

# %%
sentence = ["the", "cat", "is", "on", "the", "mat"]
factors = [1 / 2, 1 / 8, 1 / 2, 1 / 4, 1 / 1, 1 / 2]
for t, p in enumerate(factors):
    print(f"p({sentence[t]:3s} | {' '.join(['BOS', *sentence[:t]]):23s}) = {p:.3f}   log {math.log(p):6.3f}")
print(f"{'product':34s} = {math.prod(factors):.4f}  sum {sum(map(math.log, factors)):6.3f}")

# %% claims
claim("the product is 1/256 and the sum of the logarithms -5.545", abs(sum(map(math.log, factors)) + 5.545) < 1e-3)

# %% [markdown]
# $\tfrac12 \cdot \tfrac18 \cdot \tfrac12 \cdot \tfrac14 \cdot 1 \cdot \tfrac12 = \tfrac1{256}$, and
# $\ln\tfrac1{256} = -5.545$ is the sum of the logarithms.
#
# Nothing comes before the first token, so a special token {{term BOS}} ("beginning of sequence"; also called SOS) is
# put in front: now every token has something to be predicted from. Input and target are the same text, shifted by one
# place:
#
# | position | 0 | 1 | 2 | 3 | 4 | 5 |
# |---|---|---|---|---|---|---|
# | input | BOS | the | cat | is | on | the |
# | target | the | cat | is | on | the | mat |
#
# All six predictions are made at once, in one pass. That is what makes training fast. But then the position that has to
# predict "cat" must not see the input "cat", one place to its right, or it would copy the answer. So nothing to the
# right is visible. The position itself is: its own input is already known when it predicts the next token. Such a mask
# is called {{term causal}}.
#
# $$\mathrm{allowed}_{ij} \;=\; \big(\, j \le i \,\big)$$
#
# {{exercise causal_mask}}


# %% exercise causal_mask
def causal_mask(n: int) -> Tensor:
    """May position i attend to position j? Only if j is not in the future.

    Returns: (n, n) boolean, True where position i (row) may attend to position j (column).
    """
    ### BEGIN SOLUTION
    return torch.tril(torch.ones(n, n, dtype=torch.bool))
    ### END SOLUTION


# %% check causal_mask
check(causal_mask)

# %% figure The causal mask of a sentence
inputs = ["BOS", *sentence[:-1]]
show_masks({"causal_mask(6)": reference.causal_mask(6)}, 3.2, row_names=inputs, column_names=inputs)

# %% [markdown]
# Row 0 is `1 0 0 0 0 0`: the first position sees itself and nothing else. What is *kept* is the lower triangle, what
# is *hidden* is the triangle above the diagonal. It is easy to mix up the two, especially since much code builds
# the hidden one with `triu(diagonal=1)`. (With `diagonal=0` it would hide the diagonal too.) Here are three spellings
# that you will meet, and what they have in common:

# %%
n = 6
hidden = torch.triu(torch.ones(n, n), diagonal=1).bool()  # True where attention is forbidden
comparison = torch.arange(n)[:, None] >= torch.arange(n)  # i >= j
added = torch.zeros(n, n)
rows, columns = torch.triu_indices(n, n, offset=1)
added[rows, columns] = -math.inf  # to be added to the scores: section 8
for other in (~hidden, comparison, added == 0):
    print(torch.equal(other, reference.causal_mask(n)))

# %% claims
spellings = (~hidden, comparison, added == 0)
claim("the three spellings agree", all(torch.equal(other, reference.causal_mask(n)) for other in spellings))

# %% [markdown]
# ### Four words by hand
#
# Let us follow the numbers. Four words, each a vector of 3 numbers. $W^Q$ and $W^V$ are the identity, so
# $Q = V = X$; $W^K$ is not.

# %%
words = sentence[:4]
X = torch.tensor([[0.5, 0.1, 0.3], [0.7, 0.2, 0.9], [0.6, 0.4, 0.8], [0.8, 0.3, 0.5]])
W_K = torch.tensor([[0.5, 0.1, 0.3], [0.2, 0.7, 0.1], [0.3, 0.1, 0.6]])
K = X @ W_K
scores = X @ K.T / math.sqrt(3)
visible = scores.masked_fill(~reference.causal_mask(4), -math.inf)
output, weights = reference.masked_attention(X, K, X, reference.causal_mask(4))
for name, matrix in {
    "K = X W_K": K,
    "scores = Q Kᵀ / √3": scores,
    "scores, with the future hidden": visible,
    "weights": weights,
    "output": output,
}.items():
    print(f"{name}\n{matrix.numpy().round(4)}\n")

# %% claims
claim("K_00 is 0.36", abs(K[0, 0] - 0.36) < 1e-6)
claim(
    "the scores of row 1 are 0.3395 and 0.7015",
    bool(((scores[1, :2] - torch.tensor([0.3395, 0.7015])).abs() < 1e-4).all()),
)
claim("the first weight of row 1 is 0.4105", abs(weights[1, 0] - 0.4105) < 1e-4)
claim("the first output is the first word", torch.allclose(output[0], X[0]))

# %% figure Scores and weights of the four words
show_masks(
    {"scores Q Kᵀ / √3": scores, "weights after the causal mask": weights},
    height=3.4,
    row_names=words,
    column_names=words,
)

# %% [markdown]
# Check some of it with a pencil. $K_{00} = 0.5 \cdot 0.5 + 0.1 \cdot 0.2 + 0.3 \cdot 0.3 = 0.36$. Row 1 has two visible
# scores, 0.3395 and 0.7015, so its first weight is $1 / (1 + e^{0.7015 - 0.3395}) = 0.4105$. The first output is the
# first word itself, because it sees nothing else.
#
# **Spot the mistake.** A text computes the softmax of the scores 0.1934, 0.3574, 0.3146, 0.3551 as 0.25, 0.298,
# 0.236, 0.216. These sum to 1. How can you tell without a calculator that they are wrong?
#
# <details><summary>Answer</summary>
#
# The exponential preserves order: a higher score means a higher weight. The fourth score is the second highest, yet
# it has the lowest weight; the lowest score has the second highest weight. The right weights are 0.2231, 0.2628,
# 0.2518, 0.2622. "Same order as the scores" is a check that works for any row of attention weights. So is "each number
# of the output lies between the smallest and the largest of the visible values".
#
# </details>

# %%
torch.softmax(torch.tensor([0.1934, 0.3574, 0.3146, 0.3551]), dim=-1)

# %% claims
right = torch.softmax(torch.tensor([0.1934, 0.3574, 0.3146, 0.3551]), dim=-1)
claim("the right weights", bool(((right - torch.tensor([0.2231, 0.2628, 0.2518, 0.2622])).abs() < 1e-4).all()))

# %% [markdown]
# ### The leak maps of right and wrong masks
#
# Which inputs can reach which outputs? Here are the leak maps of the right mask and of three that people really write.
# Yellow means that the gradient is not 0, however small it is.

# %% figure What four masks let through
torch.manual_seed(4)
x = torch.randn(5, 4)
tried = {
    "right: tril": reference.causal_mask(5),
    "wrong: triu": torch.ones(5, 5).triu().bool(),
    "wrong: tril(1)": torch.ones(5, 5).tril(1).bool(),
    "wrong: no mask": torch.ones(5, 5).bool(),
}
from_the_future = {}
fig, axes = plt.subplots(1, 4, figsize=(9, 2.6), sharey=True)
for ax, (name, mask) in zip(axes, tried.items()):
    leaks = reference.leak_map(lambda x, mask=mask: self_attention(x, mask), x) > 0
    from_the_future[name] = int(leaks.triu(1).sum())
    title = f"{name}\n{from_the_future[name]} leaks from the future"
    show_matrix(leaks.float(), title, ax=ax, rows="", columns="input", limits=(0, 1), numbers=False)
axes[0].set_ylabel("output")
plt.show()

# %% claims
claim("leaks from the future: 0, 10, 4, 10", list(from_the_future.values()) == [0, 10, 4, 10])

# %% [markdown]
# Above the diagonal nothing may be yellow. The third mask, off by one, leaks least, but what it leaks is exactly the
# token that has to be predicted. (Read nothing into the diagonal: an input can also reach its own output as the
# *query*, even where the mask hides it as a key.)
#
# ### What a leak does to training
#
# Let us train a tiny model on **random** tokens: 10 kinds, drawn anew for every batch. There is nothing to learn. The
# best an honest model can do is to give each kind the probability 1/10, and then its loss, the {{term cross-entropy}},
# is $-\ln\tfrac1{10} = 2.303$. Here is the model, and its loss at each position:

# %%
VOCAB, LENGTH, D_MODEL = 10, 8, 32
BOS = VOCAB  # one more id


class TinyModel(nn.Module):
    """One layer of attention over token and position embeddings. Just enough to cheat."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCAB + 1, D_MODEL)
        self.positions = nn.Parameter(0.1 * torch.randn(LENGTH, D_MODEL))
        self.q, self.k, self.v = (nn.Linear(D_MODEL, D_MODEL, bias=False) for _ in range(3))
        self.out = nn.Linear(D_MODEL, VOCAB)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions  # (batch, time, d_model)
        mixed, _ = reference.masked_attention(self.q(x), self.k(x), self.v(x), mask)
        return self.out(x + mixed)  # (batch, time, vocab)


def losses_by_position(model: TinyModel, mask: Tensor, batch_size: int = 32) -> Tensor:
    """The loss at each position, on fresh random tokens: (time,)."""
    targets = torch.randint(VOCAB, (batch_size, LENGTH)).to(device)
    inputs = F.pad(targets[:, :-1], (1, 0), value=BOS)  # shifted by one
    logits = model(inputs, mask)
    return F.cross_entropy(logits.transpose(1, 2), targets, reduction="none").mean(dim=0)


# %% [markdown]
# We train it twice: once with the causal mask, once with none.


# %%
def train(mask: Tensor, name: str, steps: int = 300) -> tuple[TinyModel, list[float]]:
    torch.manual_seed(0)
    model = TinyModel().to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    curve = []
    for _ in bar(range(steps), name):
        losses = losses_by_position(model, mask)
        optimiser.zero_grad()
        losses.mean().backward()
        optimiser.step()
        curve.append(losses[:-1].mean().item())  # the last target is nobody's input
    return model, curve


causal = reference.causal_mask(LENGTH).to(device)
no_mask = torch.ones_like(causal)
honest, honest_curve = train(causal, "with the causal mask")
cheat, cheat_curve = train(no_mask, "without a mask")

# %%
torch.manual_seed(1)
found = {}
for name, model, mask in [
    ("honest, in training", honest, causal),
    ("cheat,  in training", cheat, no_mask),
    ("cheat,  generating", cheat, causal),
]:
    with torch.no_grad():
        losses = losses_by_position(model, mask, batch_size=2000)
    found[name] = losses[:-1].mean().item(), losses[-1].item()
    print(f"{name:20s} positions 0 to 6: {found[name][0]:.4f}    last position: {found[name][1]:.4f}")

# %% claims
claim("the honest model ends at ln 10", abs(found["honest, in training"][0] - math.log(10)) < 0.05)
claim("the cheat is almost perfect in training", found["cheat,  in training"][0] < 0.05)
claim("but not at the last position", found["cheat,  in training"][1] > 2.2)
claim("generating, it is far worse than guessing", found["cheat,  generating"][0] > 4)

# %% figure Training on random tokens
fig, ax = plt.subplots(figsize=(6, 3))
ax.plot(honest_curve, label="with the causal mask")
ax.plot(cheat_curve, "--", label="without a mask")
ax.axhline(math.log(VOCAB), color=COLOURS[7], linestyle=":", label="ln 10, the best possible")
ax.set(title="training on random tokens", xlabel="step", ylabel="loss, positions 0 to 6")
ax.legend(loc="center right")
plt.show()

# %% [markdown]
# Without a mask the model predicts random tokens almost perfectly: it has learned to copy from one place to the right.
# Only the *last* target is nobody's input, and there it does not beat $\ln 10$. And when it has to generate, the place
# to the right does not exist yet (third line). It is then far worse than guessing.
#
# So the mask is there to make training the same situation as generating from left to right. Remember the symptom: **if
# the loss falls to nearly 0, do not celebrate, look for the leak**. Training on random tokens is a good test of any
# model: with $V$ kinds of token its loss must not fall below $\ln V$.
#
# {{question why_low_loss}}
#
# A friend shows you a decoder with a training loss of 0.003 and asks why it generates nonsense. What do you ask to see
# first, and why can one wrong mask explain both?

# %% answer why_low_loss 2 [markdown]
# ### BEGIN SOLUTION
# I ask to see the causal mask (or a leak map: the gradient of each output with respect to each input). Without a
# causal mask, or with one that is inverted or off by one, a position sees in its input the very token it has to
# predict. It learns to copy that token, so the training loss falls to nearly 0. In generation the token does not exist
# yet, and the model has never learned to predict it from the past, so the text is nonsense.
#
# **Rubric**
#
# - 1 point: asks for the causal mask (or for a leak map), and says that a position sees the token that it has to
#   predict
# - 1 point: explains both: the loss falls because the token is copied, and in generation there is nothing to copy
# ### END SOLUTION

# %% [markdown]
# ### Who needs a causal mask? GPT, BERT and the encoder
#
# Only a model that is trained to predict the *next* token. The {{term encoder}} of a translator reads a sentence that
# is complete before anything is generated. Nobody asks it for its own next word, so there is nothing to give away. With
# a causal mask it would still run, but the first word would be encoded without knowing the rest of the sentence:
# information lost for no gain. An encoder gets the padding mask alone.
#
# The same choice separates two famous families of models. **BERT** is an encoder: every token sees both sides, which is
# good for understanding a text that is already there. **GPT** is a {{term decoder}}: every token sees only its past, so
# it can write. In between lies the **prefix language model**: a given text, such as a question, is visible to all
# positions, and what is written after it is causal.

# %% figure The masks of BERT, GPT and a prefix language model
prefix = reference.causal_mask(6) | (torch.arange(6) < 3)
three = {"BERT: both sides": torch.ones(6, 6), "GPT: the past": reference.causal_mask(6), "prefix of 3 tokens": prefix}
show_masks(three, 3.2, row_names=sentence, column_names=sentence, numbers=False)

# %% [markdown]
# How is BERT trained, if everything is visible? Some of its *input tokens* are replaced by a token `[MASK]`, and it has
# to guess what stood there. This is called a "masked language model", and it is another use of the word: nothing is
# hidden from attention. It changes the input, not the mask.
#
# <details><summary>Could you take BERT, add a causal mask and let it write?</summary>
#
# It would run. But BERT has only ever filled gaps with both sides in view; it was never trained to predict a token from
# its past alone. Like the cheat above, it would be used with a mask it was not trained with.
#
# </details>
#
# ## 5 · The decoder needs both
#
# The decoder reads the target, which has padding *and* a future:
#
# $$\mathrm{allowed}_{bij} \;=\; \big(\, j < \mathrm{length}_b \,\big) \;\wedge\; \big(\, j \le i \,\big)$$
#
# Two masks, two shapes: `(batch, key)` and `(query, key)`. {{term broadcasting|Broadcasting}} lines shapes up from the
# *right*, so the first one needs an axis of length 1 where the queries go.
#
# {{exercise decoder_mask}}
#
# Hide keys only. The formula holds for padded queries too: they see the real tokens, so no row is empty.


# %% exercise decoder_mask
def decoder_mask(lengths: Tensor, n: int) -> Tensor:
    """The mask of a decoder's self-attention: it hides the future and the padding.

    Only keys are hidden. The row of a padded query follows the same rule: it sees real tokens and no padding.

    lengths: (batch,) the number of real tokens in each sentence, at least 1; n: the padded length.
    Returns: (batch, n, n) boolean, True where key j is a real token and j <= i.
    """
    ### BEGIN SOLUTION
    real_keys = reference.padding_mask(lengths, n)[:, None, :]  # (batch, 1, key)
    past = reference.causal_mask(n)  # (query, key)
    return real_keys & past  # (batch, query, key)
    ### END SOLUTION


# %% check decoder_mask
check(decoder_mask)

# %% figure The decoder masks of three sentences
three = reference.decoder_mask(torch.tensor([6, 4, 2]), 6)
show_masks({f"sentence {b}: length {length}": three[b] for b, length in enumerate((6, 4, 2))})

# %% [markdown]
# Look closely: in the rows of *real* queries the padding mask changes nothing. With the padding on the right,
# everything to the left of a real query is real. So is the padding mask superfluous here? Only while the padding is on
# the right. Batches are often padded on the **left** for generation, so that all sentences end at the same place. Then
# the causal mask alone is not enough:

# %%
torch.manual_seed(5)
x, pads = torch.randn(3, 4), torch.full((2, 4), 2.0)
alone = self_attention(x, reference.causal_mask(3))
real_keys = torch.tensor([False, False, True, True, True])
padded_ways = {
    "right padding, causal only": self_attention(torch.cat([x, pads]), reference.causal_mask(5))[:3],
    "left padding, causal only": self_attention(torch.cat([pads, x]), reference.causal_mask(5))[2:],
    "left padding, causal and padding": self_attention(torch.cat([pads, x]), reference.causal_mask(5) & real_keys)[2:],
}
errors = {name: (output - alone).abs().max().item() for name, output in padded_ways.items()}
for name, error in errors.items():
    print(f"{name:34s} real outputs differ from those of the unpadded sentence by {error:.2f}")

# %% claims
right_only, left_only, left_both = errors.values()
claim("only left padding with the causal mask alone goes wrong", left_only > 0.5 and max(right_only, left_both) < 1e-6)

# %% [markdown]
# With left padding, the first queries have an empty row even in design (b): the first pad could see only itself, and it
# is hidden. This is where the zeros of `masked_softmax` pay off.
#
# ### The loss on padded targets
#
# What padded *queries* produce is meaningless, as we said, and must not be trained on. `cross_entropy` leaves out the
# targets that equal `ignore_index`:

# %%
torch.manual_seed(6)
PAD = 0
logits = torch.randn(6, 5)  # (time, vocab)
targets = torch.tensor([3, 1, 4, 2, PAD, PAD])
all_places = F.cross_entropy(logits, targets)
ignoring = F.cross_entropy(logits, targets, ignore_index=PAD)
real_alone = F.cross_entropy(logits[:4], targets[:4])
print(f"all six places:           {all_places:.4f}")
print(f"ignore_index=PAD:         {ignoring:.4f}")
print(f"the four real ones alone: {real_alone:.4f}")
print(f"nothing but padding:      {F.cross_entropy(logits[4:], targets[4:], ignore_index=PAD):.4f}")

# %% claims
claim("ignore_index gives the loss of the real targets alone", torch.isclose(ignoring, real_alone))
claim("which is not that of all places", abs(all_places - real_alone) > 0.05)

# %% [markdown]
# The second and third lines agree. The last one is a mean over nothing, hence `nan`. Padding thus needs two remedies:
# the *mask* keeps it out of the keys, `ignore_index` keeps it out of the loss. Neither replaces the other.
#
# ## 6 · Cross-attention
#
# In {{term cross-attention}} the decoder looks at the source: queries come from the target, keys from the source. Take
# speech as an example. The source is a recording of 600 frames, padded to 800, and the target has 8 tokens.
#
# {{exercise cross_mask}}
#
# The code is short; the exercise is to know what belongs in it. Decide before you write:
#
# - Which frames may the first token see, and which the last?
# - Is a causal mask needed here?
# - The target has padding too. Does that matter?


# %% exercise cross_mask
def cross_mask(key_lengths: Tensor, query_len: int, key_len: int) -> Tensor:
    """The mask of cross-attention: every target position sees every real source position.

    key_lengths: (batch,) number of real source positions; key_len: the padded number; query_len: target positions.
    Returns: (batch, query_len, key_len) boolean, True where the key is real. (batch, 1, key_len) will do as well.
    """
    ### BEGIN SOLUTION
    real_keys = reference.padding_mask(key_lengths, key_len)[:, None, :]  # (batch, 1, key)
    return real_keys.expand(-1, query_len, -1)  # (batch, query, key)
    ### END SOLUTION


# %% check cross_mask
check(cross_mask)

# %% figure The cross-attention masks of two recordings
audio = reference.cross_mask(torch.tensor([600, 800]), 8, 800)
fig, axes = plt.subplots(1, 2, figsize=(8, 2.4))
for ax, mask, frames in zip(axes, audio, (600, 800)):
    title = f"{frames} of 800 frames are real"
    show_matrix(mask.float(), title, ax=ax, rows="target token", columns="audio frame", limits=(0, 1))
plt.show()

# %% [markdown]
# $$\mathrm{allowed}_{bij} \;=\; \big(\, j < \ell_b \,\big)
# \qquad \text{where } \ell_b \text{ is the real length of source } b$$
#
# The last 200 frames are hidden from every query. There is no causal mask: the recording is complete before the first
# word is written. And the padding of the *target* is on the query side, where nothing is hidden. So a cross mask has
# vertical edges only. If you see a staircase, somebody has put a causal mask where it does not belong.
#
# The other masks follow from this one. In self-attention the source is the sequence itself:

# %%
lengths, n = torch.tensor([6, 4, 2]), 6
encoder_mask = reference.cross_mask(lengths, n, n)  # (batch, query, key)
decoder_too = encoder_mask & reference.causal_mask(n)
print("with the causal mask it is decoder_mask:", torch.equal(decoder_too, reference.decoder_mask(lengths, n)))

# %% claims
claim("a cross mask and a causal mask give the decoder's", torch.equal(decoder_too, reference.decoder_mask(lengths, n)))
each_row = reference.padding_mask(lengths, n)[:, None, :].expand(-1, n, -1)
claim("the encoder's is the padding mask, the same in each row", torch.equal(encoder_mask, each_row))

# %% [markdown]
# These are the three masks of a Transformer:
#
# | where | hides | your function |
# |---|---|---|
# | encoder {{term self-attention}} | padded keys | `padding_mask(...)[:, None, :]` |
# | decoder self-attention | padded keys and the future | `decoder_mask` |
# | cross-attention | padded keys of the source | `cross_mask` |
#
# ## 7 · True means allowed. Or hidden.
#
# Our masks are True where attention is allowed. torch itself uses both conventions:
#
# | function | argument | True means |
# |---|---|---|
# | `F.scaled_dot_product_attention` | `attn_mask` | **allowed** |
# | `nn.MultiheadAttention` | `attn_mask`, `key_padding_mask` | **hidden** |
# | `nn.TransformerEncoderLayer` and its relatives | `src_mask`, `src_key_padding_mask`, … | **hidden** |
# | `Tensor.masked_fill` | `mask` | filled, so **hidden** |
#
# To convert, write `~mask`. Forgetting it raises no error. **Bug hunt**: four calls, each meant to be causal.
# (`nn.MultiheadAttention` is torch's own attention layer. With `num_heads=1` it is the attention you know, with
# projections; notebook 4 takes it apart.) Which are right? Decide from the code, then look at the leak maps.

# %%
torch.manual_seed(7)
torch_layer = nn.MultiheadAttention(embed_dim=4, num_heads=1, batch_first=True)
x = torch.randn(5, 4)
mask = reference.causal_mask(5)
calls = {
    "A": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], attn_mask=mask)[0],
    "B": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], attn_mask=~mask)[0],
    "C": lambda x: torch_layer(x[None], x[None], x[None], attn_mask=mask)[0][0],
    "D": lambda x: torch_layer(x[None], x[None], x[None], attn_mask=~mask)[0][0],
}

# %% figure The leak maps of the four calls
leaks = {name: reference.leak_map(call, x) for name, call in calls.items()}
fig, axes = plt.subplots(1, 4, figsize=(9, 2.6), sharey=True)
for ax, (name, call) in zip(axes, calls.items()):
    nan_rows = int(call(x).isnan().any(dim=-1).sum())
    title = f"{name}\nNaN output rows: {nan_rows}"
    show_matrix((leaks[name] > 0).float(), title, ax=ax, rows="", columns="input", limits=(0, 1), numbers=False)
    if leaks[name].isnan().all():
        ax.text(2, 2, "every gradient is NaN", ha="center", va="center", color="white")
axes[0].set_ylabel("output")
plt.show()

# %% claims
claim("A and D are causal", all(torch.equal(leaks[name] > 0, mask) for name in "AD"))
claim(
    "B: rows 0 to 2 depend on their query, rows 3 and 4 do not",
    (leaks["B"].diagonal() > 0).tolist() == [True] * 3 + [False] * 2,
)
claim("an empty row of scaled_dot_product_attention is 0", not calls["B"](x)[-1].any())
claim(
    "every gradient of C is NaN, though one output row is",
    bool(leaks["C"].isnan().all()) and int(calls["C"](x).isnan().any(dim=-1).sum()) == 1,
)

# %% [markdown]
# <details><summary>Answer</summary>
#
# A and D are right. B and C have it the wrong way round: a row sees its future and not its past. (The diagonal of B,
# where it is yellow, is the query at work. Row 3 has one visible key. Its weight is 1 whatever the query is, so the
# query makes no difference.) The last row has no future, and so no key at all. There
# `scaled_dot_product_attention` gives zeros in this version of torch. `nn.MultiheadAttention` gives NaN in that one
# row of five, and on the way back the NaN spoils every gradient, as it did in design (a).
#
# </details>
#
# One more trap: keep masks boolean. With integers `~` flips bits, and both results count as True:

# %%
as_integers = torch.tensor([1, 0])
print("~ of integers:", (~as_integers).tolist(), "→ as truth values", (~as_integers).bool().tolist())
print("~ of booleans:", (~as_integers.bool()).tolist())

# %% claims
claim("with integers both results count as True", (~as_integers).bool().tolist() == [True, True])

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
# This says the same as filling: $s + 0 = s$, and $s + (-\infty) = -\infty$. Both `scaled_dot_product_attention` and
# `nn.MultiheadAttention` read a mask of floats this way. Here the two agree.
#
# {{exercise additive_mask}}
#
# Instead of $-\infty$ you may use a large negative number. (Some texts say "a very small number", which is a bad name
# for it: $10^{-9}$ is very small.) It has to work for scores from -1000 to 1000.


# %% exercise additive_mask
def additive_mask(mask: Tensor) -> Tensor:
    """The same mask as numbers to be added to the scores.

    mask: (...) boolean, True where attention is allowed.
    Returns: (...) floating point, 0 where allowed; where hidden, -inf or a number so negative that scores between
    -1000 and 1000 cannot make up for it.
    """
    ### BEGIN SOLUTION
    return torch.zeros(mask.shape).masked_fill(~mask, -math.inf)
    ### END SOLUTION


# %% check additive_mask
check(additive_mask)

# %% [markdown]
# Which number should it be? Here are four, in three situations: an ordinary row, a row in which everything is hidden,
# and {{term half precision}} (float16, whose largest number is 65504):

# %%
row = torch.tensor([2.0, 1.0, 3.0])


def filled(row: Tensor, hidden: list[bool], fill: float) -> str:
    """The softmax of the row with the hidden scores filled, as text; or what went wrong."""
    try:
        weights = row.masked_fill(torch.tensor(hidden), fill).softmax(dim=-1)
    except RuntimeError as error:
        return f"error: {str(error).split()[-1]}"  # the last word says what happened
    return " ".join(f"{w:.6f}" for w in weights.tolist())


print(f"{'fill':>8}   {'last two hidden':29}{'all hidden':29}last two hidden, float16")
for fill in (-math.inf, -1e9, -1e4, -10.0):
    ordinary, empty = filled(row, [False, True, True], fill), filled(row, [True, True, True], fill)
    print(f"{fill:>8g}   {ordinary:29}{empty:29}{filled(row.half(), [False, True, True], fill)}")

# %% claims
claim("-1e9 is an error in float16", "overflow" in filled(row.half(), [False, True, True], -1e9))
claim("-10 leaves a weight", filled(row, [False, True, True], -10.0).split()[1] > "0.000000")
claim("-inf is exact in every precision", filled(row.half(), [False, True, True], -math.inf).split()[1] == "0.000000")
claim("-1e4 works in float16 too", filled(row.half(), [False, True, True], -1e4).split()[1] == "0.000000")
claim("-inf makes an empty row NaN", filled(row, [True] * 3, -math.inf).split() == ["nan"] * 3)
claim("-1e9 makes it uniform", len(set(filled(row, [True] * 3, -1e9).split())) == 1)
claim("-1e9 is exact in float32", filled(row, [False, True, True], -1e9).split()[1] == "0.000000")

# %% [markdown]
# - $-\infty$: exact, works in every precision, NaN in an empty row.
# - $-10^9$: exact in float32, uniform in an empty row, **an error in float16**.
# - $-10^4$, the number in BERT's code: works in float16 too, as long as the scores are much smaller than that.
# - $-10$: the hidden weights are not zero.
#
# ## 9 · Windows, and masks of your own
#
# Any rule for who sees whom is a mask. A common one for long sequences is **local attention**: each position looks at
# most $r$ steps to either side. Then at most $n \cdot (2r + 1)$ pairs are allowed instead of $n^2$.
#
# $$\mathrm{allowed}_{ij} \;=\; \big(\, |i - j| \le r \,\big)$$
#
# {{exercise window_mask}}


# %% exercise window_mask
def window_mask(n: int, radius: int) -> Tensor:
    """Local attention: a position sees itself and the positions up to `radius` steps away, on both sides.

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
# Is a position then cut off from everything far away? Not if there are several layers: each one reaches $r$ steps
# further. The leak maps show it for radius 1:

# %%
torch.manual_seed(9)
x = torch.randn(9, 4)


def stack(x: Tensor, mask: Tensor, depth: int) -> Tensor:
    """Several layers of attention, one after the other."""
    for _ in range(depth):
        x = self_attention(x, mask)
    return x


reach = {}
for depth in (1, 2, 4):
    leaks = reference.leak_map(lambda x, depth=depth: stack(x, reference.window_mask(9, 1), depth), x)
    reach[f"layers: {depth}"] = leaks > 0
show_masks(reach, rows="output", columns="input", numbers=False)

through_three = reference.leak_map(lambda x: stack(x, reference.causal_mask(9), 3), x)
both = reference.window_mask(9, 2) & reference.causal_mask(9)
print("causal mask, three layers: leaks from the future:", int((through_three > 0).triu(1).sum()))
print("masks combine with &: row 6 of (window of 2 and causal) is", both[6].int().tolist())
print("allowed pairs at n = 1000: all", 1000**2, "· window of 2:", reference.window_mask(1000, 2).sum().item())

# %% claims
claim(
    "each layer reaches one step further",
    all(torch.equal(seen, reference.window_mask(9, int(name[-1]))) for name, seen in reach.items()),
)
claim("causal stays causal through layers", not (through_three > 0).triu(1).any())

# %% [markdown]
# With the causal mask nothing comes from the future, however many layers there are, because no layer ever looks to the
# right.
#
# Now paint a mask of your own. Beside it you see what reaches what through one or more layers, and the weights of one
# layer. Start from the causal mask and open a single pair above its diagonal: how far does that leak spread through two
# layers? And what happens to the weights of a row when you empty it? (The residual path belongs to notebook 5: leave it
# off.)

# %% figure Paint a mask of your own
paint_a_mask()

# %% [markdown]
# ## What you can do now
#
# - build the padding, causal, decoder, cross and window masks, and combine them with `&`;
# - apply a mask before the softmax, with zeros and finite gradients where a row is empty;
# - say why keys are hidden and queries are not, and what `ignore_index` adds to that;
# - say which mask BERT has and which GPT has, and why;
# - convert between the two conventions and the additive form, and choose the fill value;
# - find a leak: with a leak map, or by training on random tokens.
#
# **Further reading.** Vaswani et al. (2017), *Attention Is All You Need*, section 3.2.3, on the masks of the decoder.
# Rush (2018), *The Annotated Transformer*, has them in code. Devlin et al. (2018), *BERT*, and Radford et al. (2018),
# *Improving Language Understanding by Generative Pre-Training* (GPT): the two families. Raffel et al. (2020),
# *Exploring the Limits of Transfer Learning* (T5), compares their masks and the prefix. Child et al. (2019),
# *Generating Long Sequences with Sparse Transformers*, and Beltagy et al. (2020), *Longformer*, for windows and other
# patterns.
