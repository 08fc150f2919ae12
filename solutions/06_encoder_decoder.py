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
# # 6 · Encoder and decoder: the parts become two stacks
#
# You have attention, masks, positions, norms and residual paths. In this notebook you wire them into the four
# modules of which a Transformer is made: the encoder layer, the encoder, the decoder layer and the decoder. Nothing
# new is computed here. All that can go wrong is the wiring, and most of it goes wrong in silence; so you also hunt
# bugs in a layer like those that get published. It takes about 90 minutes.

# %% setup
from itertools import pairwise

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

from course_lib import check, hint, solution
from course_lib import encoder_decoder as reference
from course_lib.masks import causal_mask, padding_mask
from course_lib.multi_head_attention import MultiHeadAttention
from course_lib.plotting import COLOURS, show_matrix, use_course_style
from course_lib.positions import PositionalEncoding
from course_lib.sublayers import FeedForward, LayerNorm, TokenEmbedding, residual_post_norm, residual_pre_norm
from course_lib.training import shift_right
from course_lib.transformer import cross_attention_weights
from course_lib.translation import BOS, english_vocabulary, french_vocabulary, load_translator, translate

torch.manual_seed(0)
use_course_style()

# %% [markdown]
# ## 1 · What flows where
#
# To translate "the cat is on the mat" a model does two different jobs.
#
# - The **encoder** reads the source. All of it is known from the start, so every position may look at every other.
# - The **decoder** writes the target, one word after the other. A position may look at the target words before it,
#   and at everything that the encoder has found out about the source.
#
# Each of the two is a stack of $N$ layers of equal build ($N = 6$ in the paper; there is nothing magic about six).
# Here is the whole of it, with the shape of what runs along each arrow. $B$ sentences, $S$ source positions, $T$
# target positions, $d$ features ($d_\text{model}$), $V$ words in the target vocabulary.

# %% figure
ATTENTION, NETWORK, NORM, TABLE = COLOURS[3], COLOURS[4], COLOURS[6], "#DDDDDD"


def box(ax, x, y, text, colour, width=2.6, height=0.5):
    ax.add_patch(plt.Rectangle((x - width / 2, y - height / 2), width, height, facecolor=colour, edgecolor="black"))
    ax.text(x, y, text, ha="center", va="center", fontsize=9)


def arrow(ax, *points, label="", side="right"):
    for (x1, y1), (x2, y2) in pairwise(points[:-1]):
        ax.plot([x1, x2], [y1, y2], color="black", linewidth=1.2)
    ax.annotate("", points[-1], points[-2], arrowprops={"arrowstyle": "-|>", "color": "black", "linewidth": 1.2})
    if label:
        (x1, y1), (x2, y2) = points[-2:]
        shift, align = (0.1, "left") if side == "right" else (-0.1, "right")
        ax.text((x1 + x2) / 2 + shift, (y1 + y2) / 2, label, fontsize=8, va="center", ha=align, color=COLOURS[0])


fig, ax = plt.subplots(figsize=(9, 8.2))
left, right = 2.4, 7.4
columns = {
    left: [
        (0.0, "source ids", "white"),
        (1.1, "embedding · √d + positions", TABLE),
        (2.7, "self-attention", ATTENTION),
        (3.5, "add, norm", NORM),
        (4.7, "feed-forward", NETWORK),
        (5.5, "add, norm", NORM),
    ],
    right: [
        (0.0, "target ids so far", "white"),
        (1.1, "embedding · √d + positions", TABLE),
        (2.7, "masked self-attention", ATTENTION),
        (3.5, "add, norm", NORM),
        (4.7, "cross-attention", ATTENTION),
        (5.5, "add, norm", NORM),
        (6.7, "feed-forward", NETWORK),
        (7.5, "add, norm", NORM),
        (9.1, "output layer", TABLE),
    ],
}
for x, boxes in columns.items():
    for y, text, colour in boxes:
        box(ax, x, y, text, colour)
    for (low, *_), (high, *_) in pairwise(boxes):
        arrow(ax, (x, low + 0.25), (x, high - 0.25))
for x, length in ((left, "S"), (right, "T")):
    ax.text(x + 0.12, 0.55, f"(B, {length})", fontsize=8, va="center", color=COLOURS[0])
    ax.text(x + 0.12, 1.72, f"(B, {length}, d)", fontsize=8, va="center", color=COLOURS[0])
ax.text(right + 0.12, 8.2, "(B, T, d)", fontsize=8, va="center", color=COLOURS[0])
arrow(ax, (right, 9.35), (right, 9.95))
ax.text(right + 0.12, 9.62, "logits (B, T, V)", fontsize=8, va="center", color=COLOURS[0])

# the residual paths run around each sub-layer
for x, sublayers in ((left, (2.7, 4.7)), (right, (2.7, 4.7, 6.7))):
    outside = -1.75 if x == left else 1.75
    for y in sublayers:
        arrow(ax, (x, y - 0.5), (x + outside, y - 0.5), (x + outside, y + 0.8), (x + outside * 1.3 / 1.75, y + 0.8))
# N layers
for x, top in ((left, 6.05), (right, 8.0)):
    frame = plt.Rectangle((x - 2.1, 2.0), 4.2, top - 2.0, facecolor="none", edgecolor=COLOURS[0], linestyle="--")
    ax.add_patch(frame)
ax.text(left - 2.1, 1.72, "N × encoder layer", fontsize=9, color=COLOURS[0])
ax.text(right - 2.1, 1.72, "N × decoder layer", fontsize=9, color=COLOURS[0])
# the memory
arrow(ax, (left, 5.75), (left, 6.9), (4.9, 6.9), (4.9, 4.7), (right - 1.3, 4.7))
ax.text(left + 0.1, 7.05, "memory (B, S, d)", fontsize=8, color=COLOURS[0])
ax.text(5.45, 4.83, "K, V", fontsize=8, color=COLOURS[0])
ax.text(right - 0.25, 4.3, "Q", fontsize=8, va="center", color=COLOURS[0])
ax.set(xlim=(-0.2, 10), ylim=(-0.4, 10.1), title="The Transformer, post-norm as in the paper")
ax.axis("off")
plt.show()

# %% [markdown]
# Follow three things with your finger.
#
# 1. **The shape.** A layer takes $(B, n, d)$ and gives $(B, n, d)$. That is why layers can be stacked at all, and why
#    $x$ can be added to what a sub-layer makes of it.
# 2. **The one bridge.** Source and target meet in one place only, the cross-attention. What crosses is what the *last*
#    encoder layer gives, and every decoder layer gets the same.
# 3. **What mixes positions.** Only the attentions (orange). Everything else works on each position alone.
#
# Not drawn: dropout falls on what each sub-layer gives, before it is added.
#
# In pre-norm models (nearly all since 2019) each norm stands *before* its sub-layer instead of behind the addition,
# and one more stands at the end of each stack. You will build both.
#
# > **Spot the mistake.** A tutorial, explaining the left column, writes: "the *decoder* has two layers: a
# > self-attention layer and a feed-forward layer". Two slips in one sentence. Which?
#
# <details><summary>Answer</summary>
#
# The text describes the encoder, and these are not layers but sub-layers of one layer. One encoder layer has two
# sub-layers; one decoder layer has three, with the cross-attention between the other two.
#
# </details>
#
# ## 2 · The encoder layer
#
# First only the shapes. Two sentences of four tokens, the sizes of the paper. We do by hand what a post-norm layer
# does, and print what comes out of every step.

# %%
x = torch.rand(2, 4, 512)
attention, feed_forward = MultiHeadAttention(512, 8), FeedForward(512, 2048)
norm_1, norm_2 = LayerNorm(512), LayerNorm(512)

steps = {"x": x}
output, weights = attention(x, x, x)
steps["attention weights (batch, head, query, key)"] = weights
steps["attention output"] = output
steps["norm_1(x + output)"] = h = norm_1(x + output)
steps["hidden layer of the feed-forward network"] = feed_forward.w_1(h)
steps["feed-forward output"] = feed_forward(h)
steps["norm_2(h + output)"] = norm_2(h + feed_forward(h))
for name, tensor in steps.items():
    print(f"{name:46s}{tuple(tensor.shape)}")

# %% [markdown]
# In: $(2, 4, 512)$. Out: $(2, 4, 512)$. On the way it is wider once (2048 hidden features) and has another shape once
# (each of 8 heads has a $4 \times 4$ table of weights).
#
# Now the two ways to put the norm. For every sub-layer $F$, with dropout on what $F$ gives:
#
# $$\text{post-norm:}\quad x \leftarrow \mathrm{norm}\big(x + \mathrm{dropout}(F(x))\big)
# \qquad\qquad
# \text{pre-norm:}\quad x \leftarrow x + \mathrm{dropout}\big(F(\mathrm{norm}(x))\big)$$
#
# An encoder layer does this twice: with $F_1(h) = \mathrm{MultiHead}(h, h, h)$ and `norm_1`, then with
# $F_2 = \mathrm{FFN}$ and `norm_2`. Where does the dropout stand? On the update, before it is added. Not on the sum:
# that would knock holes into the path of $x$ itself.
#
# {{exercise EncoderLayer}}
#
# The parts are all there, and they are right: `__init__` is given. You write how they are wired. `residual_pre_norm`
# and `residual_post_norm` from the last notebook are imported; two plain branches are as good. Use the names that
# are there: the check puts numbers of its own into `norm_1`, `attention` and the rest, and compares with the right
# result. If you are stuck, run `hint("EncoderLayer")` in a new cell. After a real attempt `solution("EncoderLayer")`
# opens too.


# %% exercise EncoderLayer
class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network; around each a residual path and a norm."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.0, norm_first: bool = True):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads, dropout)  # (q, k, v, mask) -> (output, weights)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.norm_1 = LayerNorm(d_model)  # for the attention
        self.norm_2 = LayerNorm(d_model)  # for the feed-forward network
        self.dropout = nn.Dropout(dropout)  # for what each of the two gives
        self.norm_first = norm_first  # True: pre-norm, False: post-norm

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """
        x: (batch, time, d_model)
        mask: (batch, 1 or time, time), True where attention is allowed; None allows everything.
        Returns: one tensor of the shape of x.
        """
        ### BEGIN SOLUTION
        residual = residual_pre_norm if self.norm_first else residual_post_norm

        def attend(h: Tensor) -> Tensor:
            output, _ = self.attention(h, h, h, mask)
            return self.dropout(output)

        def transform(h: Tensor) -> Tensor:
            return self.dropout(self.feed_forward(h))

        x = residual(x, attend, self.norm_1)
        x = residual(x, transform, self.norm_2)
        return x
        ### END SOLUTION


# %% check EncoderLayer
check(EncoderLayer)

# %% [markdown]
# What does the layer let through? Ask the gradient: does the result at position $i$ depend on the input at position
# $j$? (1 is yes.) Six positions, of which the last two are padding. One layer, once without and once with the mask:


# %%
def dependence(module, x, *rest, wrt=None):
    """(row, column): how much the result at each position depends on each position of x (or of `wrt`)."""
    wrt = x if wrt is None else wrt
    wrt.requires_grad_()
    result = module(x, *rest)[0] @ torch.linspace(-1, 1, x.shape[-1])  # one number for each position
    rows = [torch.autograd.grad(number, wrt, retain_graph=True)[0][0] for number in result]
    return torch.stack([row.norm(dim=-1) for row in rows])


torch.manual_seed(1)
layer = reference.EncoderLayer(16, 4, 32).eval()
x = torch.randn(1, 6, 16)
real = padding_mask(torch.tensor([4]), 6)[:, None]  # (1, 1, 6)

fig, axes = plt.subplots(1, 2, figsize=(8, 3.4))
for ax, mask, title in ((axes[0], None, "no mask"), (axes[1], real, "positions 4 and 5 are padding")):
    show_matrix(
        (dependence(layer, x, mask) > 1e-9).float(), title, rows="result", columns="input", limits=(0, 1), ax=ax
    )
plt.show()

# %% [markdown]
# In the right picture nobody looks at the padding. The two ones at the lower right are the residual path: even a
# padded position keeps itself. Its result means nothing, but no real position sees it, in this layer or in a later one.
#
# An encoder layer needs no causal mask. It does need the padding mask. "Attention is global here, so the mask is None"
# is right for one sentence alone and wrong for a batch with padding.
#
# ### A layer by another name
#
# Many texts call this module a *Transformer block* and build it post-norm with a hidden layer of $4 \times$ the width.
# That is a choice of arguments, not another module:

# %%
block = reference.EncoderLayer(d_model=512, num_heads=8, d_ff=4 * 512, norm_first=False)
for name, part in block.named_children():
    print(f"{name:14s}{sum(p.numel() for p in part.parameters()):>10,d} parameters")
print(f"{'together':14s}{sum(p.numel() for p in block.parameters()):>10,d}")

# %% [markdown]
# By hand: the attention has $4 \cdot 512^2 + 4 \cdot 512 = 1\,050\,624$, the feed-forward network
# $2 \cdot 4 \cdot 512^2 + 2048 + 512 = 2\,099\,712$. Two thirds of a layer are its feed-forward network.

# %% [markdown]
# ## 3 · A bug hunt
#
# The layer below uses `nn.MultiheadAttention`. It is close to what one finds on the web, and it has several bugs.
# Read it before you go on, and write down what you find. (Post-norm only, so `norm_first` is not there.)


# %%
class Published(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, num_heads)
        self.dropout = nn.Dropout(dropout)
        self.norm_1 = nn.LayerNorm(d_model)
        self.feed_forward = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm_2 = nn.LayerNorm(d_model)

    def attend(self, x, mask):
        return self.attention(x, x, x, mask)

    def forward(self, x, mask=None):
        x = self.norm_1(x + self.dropout(self.attend(x, mask)))
        return self.norm_2(x + self.dropout(self.feed_forward(x)))


torch.manual_seed(0)
layer = Published(16, 4, 32).eval()
x = torch.randn(2, 4, 16)  # two sentences of four tokens
try:
    layer(x)
except TypeError as error:
    print("TypeError:", error)

# %% [markdown]
# **Bug 1** is kind: it stops. Attention gives two things, and a tuple cannot be dropped out. We take the first.


# %%
class Published2(Published):
    def attend(self, x, mask):
        return self.attention(x, x, x, mask)[0]


torch.manual_seed(0)
layer = Published2(16, 4, 32).eval()
print("in", tuple(x.shape), " out", tuple(layer(x).shape))

# %% [markdown]
# It runs, and the shape is right. So it must be right? Ask the gradient. Which inputs does the *first token of the
# first sentence* depend on?

# %%
x.requires_grad_()
(slope,) = torch.autograd.grad(layer(x)[0, 0] @ torch.linspace(-1, 1, 16), x)  # of one number, a mix of its features
show_matrix(
    slope.norm(dim=-1),
    "Result of sentence 0, token 0:\nwhat does it depend on?",
    rows="sentence",
    columns="token",
)
plt.show()

# %% [markdown]
# **Bug 2.** It depends on the first token of the *other* sentence, and on no other token of its own. By default
# `nn.MultiheadAttention` takes the first axis for time and the second for the batch. Our sentences attended to each
# other. Nothing but `batch_first=True` was missing, and no shape gave it away.
#
# Now the mask. Let the layer be causal for once (True = hidden, as torch has it), and pass it as `Published` does,
# in the fourth place.


# %%
class Published3(Published2):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.1):
        super().__init__(d_model, num_heads, d_ff, dropout)
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)


torch.manual_seed(0)
layer = Published3(16, 4, 32).eval()
hidden = ~causal_mask(4)  # (4, 4)
try:
    layer(torch.randn(2, 4, 16), hidden)
except Exception as error:
    print(f"2 sentences of 4 tokens: {type(error).__name__}: {error}")

x = torch.randn(4, 4, 16)
weights = layer.attention(x, x, x, hidden)[1]
print("4 sentences of 4 tokens: no complaint. The weights of sentence 0:")
print(weights[0].detach().numpy().round(2))

# %% [markdown]
# **Bug 3.** The fourth argument is `key_padding_mask`, of shape (batch, key). With two sentences the shapes do not
# fit, and torch complains. With as many sentences as tokens they fit by accident: row $b$ of the causal mask is
# taken for the padding of sentence $b$, and sentence 0 may look at its first token only. A mask of pairs is called
# `attn_mask`, and it has to be passed by name.
#
# A test with batch size 4 and length 4 would never have found this. **All sizes different** is the cheapest test
# there is.
#
# Is it right now? Let the check of the exercise say. With `practice=True` nothing is counted.


# %%
class Repaired(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm_first=True):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, num_heads, dropout, batch_first=True)
        self.feed_forward = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm_1, self.norm_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def attend(self, x, mask):
        if mask is not None:  # torch hides where True, and wants one mask for each sentence and head
            mask = ~mask.expand(-1, x.shape[1], -1).repeat_interleave(self.attention.num_heads, dim=0)
        return self.attention(x, x, x, attn_mask=mask)[0]

    def forward(self, x, mask=None):
        if self.norm_first:
            x = x + self.attend(self.norm_1(x), mask)
            return x + self.dropout(self.feed_forward(self.norm_2(x)))
        x = self.norm_1(x + self.attend(x, mask))
        return self.norm_2(x + self.dropout(self.feed_forward(x)))


check("EncoderLayer", Repaired, practice=True)

# %% [markdown]
# **Bug 4** came in with the repair, and the check names it. Which one line would you change to mend it? A public
# encoder has this bug too. In evaluation dropout does nothing, so no test that calls `.eval()` can see it.
#
# <details><summary>Answer</summary>
#
# The last line of `attend`: it should return `self.dropout(self.attention(x, x, x, attn_mask=mask)[0])`.
#
# </details>
#
# ### Four ways to lose x
#
# Residual paths go wrong in silence as well. Each of the lower four lines is a small slip in a pre-norm layer. They all
# run and they all keep the shape. There is a test that tells them apart at once: let the sub-layer $f$ say **nothing**,
# and look at what comes through. One token with three features, $x = (1, 2, 6)$, of mean 3 and variance $14/3$:


# %%
def nothing(h: Tensor) -> Tensor:
    return torch.zeros_like(h)


slips = {
    "right       x + f(norm(x))": lambda x, f, norm: x + f(norm(x)),
    "doubled     x = f(norm(x)); x + x": lambda x, f, norm: f(norm(x)) + f(norm(x)),
    "normalised  h = norm(x); h + f(h)": lambda x, f, norm: norm(x) + f(norm(x)),
    "inside      f(x + norm(x))": lambda x, f, norm: f(x + norm(x)),
    "both        norm(x + f(norm(x)))": lambda x, f, norm: norm(x + f(norm(x))),
}
x = torch.tensor([1.0, 2.0, 6.0])
for name, path in slips.items():
    print(f"{name:36s}{path(x, nothing, LayerNorm(3)).detach().numpy().round(2)}")

# %% [markdown]
# If a sub-layer has nothing to say, $x$ should come through as it is. "Doubled" and "inside" lose all of it, the other
# two lose its mean and its size. In a deep stack this is what the gradient has to travel through, too. The check of
# your layer asks just this question, under the name "x itself runs past both sub-layers".
#
# ### Indented once too often
#
# One more, from a public encoder. Where is `forward`?


# %%
class Indented(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

        def forward(self, x):
            return self.linear(x)


try:
    Indented()(torch.ones(1, 4))
except NotImplementedError as error:
    print("NotImplementedError:", error)

# %% [markdown]
# Four blanks too many, and `forward` is a local function of `__init__` that nobody calls. Python finds nothing wrong
# with that.

# %% [markdown]
# ## 4 · The encoder
#
# The encoder is $N$ layers, one after the other. "Equal in build" does not mean "the same": each layer has weights of
# its own. How does one get that wrong? Like this.

# %%
layer = reference.EncoderLayer(512, 8, 2048)
shared = nn.ModuleList([layer] * 6)
separate = nn.ModuleList(reference.EncoderLayer(512, 8, 2048) for _ in range(6))

for name, layers in (("[layer] * 6", shared), ("six calls of EncoderLayer", separate)):
    same = layers[0].attention.w_q.weight is layers[5].attention.w_q.weight
    count = sum(p.numel() for p in layers.parameters())
    print(f"{name:28s}{len(layers)} layers, first and last hold the same matrix: {same!s:6s}{count:>12,d} parameters")

# %% [markdown]
# `[layer] * 6` is a list of six names for one object. The model runs, with a sixth of its parameters. (Some models
# share their layers on purpose, to be small. Then it should be on purpose.) A plain Python list of six layers fails
# the other way round: torch does not look into it, and no optimiser ever sees the weights.

# %%
for name, layers in (("ModuleList", separate), ("plain list", list(separate))):
    model = nn.Module()
    model.layers = layers
    print(f"{name}: the model knows of {sum(p.numel() for p in model.parameters()):,d} parameters")

# %% [markdown]
# ### Layers one after the other, positions all at once
#
# Layer 2 needs *all* results of layer 1, since each of its positions looks at all the others. So layers are
# sequential. Within a layer no position waits for another: each result can be computed without the others' results.
# Let us do it, one query at a time, in any order, and compare.

# %%
torch.manual_seed(2)
layer = reference.EncoderLayer(16, 4, 32).eval()
x = torch.randn(1, 7, 16)
at_once = layer(x)

h = layer.norm_1(x)  # each position on its own
for i in (3, 6, 0, 5, 1, 4, 2):  # any order
    position = x[:, i : i + 1]
    position = position + layer.attention(h[:, i : i + 1], h, h)[0]  # one query, all keys
    position = position + layer.feed_forward(layer.norm_2(position))
    assert torch.allclose(position, at_once[:, i : i + 1], atol=1e-5)
print("seven positions, one by one in any order: the same as all at once")

# %% [markdown]
# For a sentence of 50 words and 6 layers that makes 6 steps which have to wait for each other. A recurrent network has
# 50. That, and not fewer operations, is why Transformers train fast on hardware that does many things at once.
#
# ### One more norm
#
# In post-norm mode each layer ends with a norm. In pre-norm mode nothing ever normalises the sum that runs past the
# sub-layers; every layer adds to it. Twelve pre-norm layers, fresh and with the weights of the feed-forward networks
# doubled (to see what larger weights do), and twelve post-norm layers:

# %%
fig, ax = plt.subplots(figsize=(6.5, 3))
for name, norm_first, factor, style in (
    ("pre-norm, weights doubled", True, 2, "^:"),
    ("pre-norm, fresh", True, 1, "o-"),
    ("post-norm, weights doubled", False, 2, "s--"),
):
    torch.manual_seed(4)
    stack = reference.Encoder(64, 4, 256, num_layers=12, norm_first=norm_first).eval()
    h = torch.randn(2, 10, 64)
    sizes = [h.pow(2).mean().sqrt().item()]
    with torch.no_grad():
        for layer in stack.layers:
            for parameter in layer.feed_forward.parameters():
                parameter.mul_(factor)
            h = layer(h)
            sizes.append(h.pow(2).mean().sqrt().item())
    ax.plot(range(13), sizes, style, label=name, markersize=4)
ax.set(title="Typical size of a feature after each layer", xlabel="layer", ylabel="root mean square", ylim=(0, None))
ax.legend(frameon=False, fontsize=8)
plt.show()

# %% [markdown]
# The pre-norm sum grows with every layer. Whoever reads it next should get it at size 1: so a pre-norm stack ends with
# one more norm. A post-norm stack needs none, and the paper has none. (`nn.Transformer` puts one there in both
# modes. If you copy weights from one to the other, you notice.)
#
# $$\mathrm{Encoder}(x) = \mathrm{norm}\big(\mathrm{layer}_N(\cdots\,\mathrm{layer}_2(\mathrm{layer}_1(x)))\big)
# \qquad\text{the norm in pre-norm mode only}$$
#
# {{exercise Encoder}}
#
# This time `__init__` is yours too. Build the layers from `reference.EncoderLayer`, so that this exercise does not
# depend on the one before. It takes the same arguments, without `num_layers`.


# %% exercise Encoder
class Encoder(nn.Module):
    """A stack of encoder layers, each with weights of its own.

    `self.layers`: an nn.ModuleList of num_layers layers; x goes through layers[0] first.
    `self.norm`: the LayerNorm at the end if norm_first; otherwise none is applied.
    """

    def __init__(
        self, d_model: int, num_heads: int, d_ff: int, num_layers: int, dropout: float = 0.0, norm_first: bool = True
    ):
        super().__init__()
        ### BEGIN SOLUTION
        self.layers = nn.ModuleList(
            reference.EncoderLayer(d_model, num_heads, d_ff, dropout, norm_first) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()
        ### END SOLUTION

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """
        x: (batch, time, d_model); mask: (batch, 1 or time, time), the same for every layer.
        Returns: the shape of x, what the last layer gives.
        """
        ### BEGIN SOLUTION
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)
        ### END SOLUTION


# %% check Encoder
check(Encoder)

# %% [markdown]
# How fast does news spread through the stack? With a *window* mask each position sees its two neighbours only. After
# one layer, two, three:

# %%
torch.manual_seed(5)
x = torch.randn(1, 9, 16)
near = (torch.arange(9)[:, None] - torch.arange(9)).abs() <= 1  # (9, 9)
fig, axes = plt.subplots(1, 3, figsize=(9, 3.2))
for ax, depth in zip(axes, (1, 2, 3)):
    stack = reference.Encoder(16, 4, 32, num_layers=depth).eval()
    reached = (dependence(stack, x, near[None]) > 1e-9).float()
    show_matrix(reached, f"{depth} layer{'s'[: depth - 1]}", rows="result", columns="input", numbers=False, ax=ax)
plt.show()

# %% [markdown]
# Each layer carries news one step further. With full attention everything is one step away from everything, in the
# first layer already. That is what a stack without a mask buys, and what it pays $n^2$ scores for.
#
# ### What stands before the stack
#
# `Encoder` takes vectors. Ids become vectors in front of it: a table row for each token, times $\sqrt d$; the position
# vectors added; dropout on the sum. Everything for this was built in earlier notebooks.


# %%
class SourceSide(nn.Module):
    """ids (batch, source) -> memory (batch, source, d_model)."""

    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, dropout=0.1, max_len=50):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, d_model, pad_id=0)
        self.positions = PositionalEncoding(d_model, max_len)
        self.dropout = nn.Dropout(dropout)
        self.encoder = reference.Encoder(d_model, num_heads, d_ff, num_layers, dropout)

    def forward(self, ids):
        x = self.dropout(self.positions(self.embedding(ids)))
        return self.encoder(x, (ids != 0)[:, None])  # the padding mask, from the ids


source_side = SourceSide(vocab_size=100, d_model=32, num_heads=4, d_ff=64, num_layers=3).eval()
ids = torch.tensor([[5, 9, 2, 7, 5, 8], [4, 4, 3, 0, 0, 0]])
print("ids", tuple(ids.shape), "-> memory", tuple(source_side(ids).shape))
print("parameters of the position table:", sum(p.numel() for p in source_side.positions.parameters()))
try:
    source_side(torch.ones(1, 51, dtype=torch.long))
except ValueError as error:
    print("ValueError:", error)

# %% [markdown]
# The sinusoids are fixed: a buffer, nothing to train. Other code writes the same as an embedding that is frozen.
# Mind the end of the table. A source that is longer should meet an error that says so, not an
# `index out of range in self`.

# %% [markdown]
# ## 5 · The decoder layer
#
# The decoder layer has one sub-layer more. After the targets have looked at each other (only backwards: causal mask),
# each of them asks the source. That is the same attention as ever, with its inputs from two places:
#
# $$\mathrm{CrossAttention} = \mathrm{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V
# \qquad Q = h\,W^Q,\quad K = \text{memory}\,W^K,\quad V = \text{memory}\,W^V$$
#
# The one who asks sets the length of the answer: $T$ queries, $T$ results. The one who is asked sets the width of
# the weights: $S$ keys. Exchange them, and the shapes tell you.

# %%
torch.manual_seed(6)
attention = MultiHeadAttention(16, 4)
h, memory = torch.randn(2, 5, 16), torch.randn(2, 6, 16)  # 5 target positions, 6 source positions
for name, inputs in (("targets ask the source", (h, memory, memory)), ("the source asks", (memory, h, h))):
    output, weights = attention(*inputs)
    print(f"{name:24s} output {tuple(output.shape)}   weights {tuple(weights.shape)}")

# %% [markdown]
# What do such weights look like when they have learned something? The course brings a small translator along, which
# *you* will train two notebooks from here. For each French word we draw where its last decoder layer looked in the
# English sentence while *writing* that word (mean over the heads). At that moment it had read the words before it.

# %%
model = load_translator()
english = "the small cats do not see the black dog"
french = translate(model, [english])[0].lower().replace("'", "' ").removesuffix(".").split()
source = english_vocabulary().encode(english.split())[None]
target = french_vocabulary().encode(french)[None]
with torch.no_grad():
    weights = cross_attention_weights(model, source, shift_right(target, BOS))  # (layer, 1, head, target, source)
print(f"{english}  ->  {' '.join(french)}")
show_matrix(
    weights[-1, 0].mean(dim=0),
    "Where the decoder looks while it writes each word",
    rows="target word being written",
    columns="source word",
    row_names=[*french, "(end)"],
    column_names=[*english.split(), "(end)"],
    numbers=False,
    colourbar=True,
)
plt.show()

# %% [markdown]
# One row for each target word, one column for each source word; the shade is the weight, and a row's result is the
# weighted sum of the source positions. The bright squares leave the diagonal where French puts the adjective behind
# its noun ("black dog", "chien noir"). Nobody told the model which word belongs to which.
#
# One detail that is often done wrong: **no norm of the decoder touches the memory.** In pre-norm mode `norm_2` is for
# the targets who ask. The memory was normalised at the end of the encoder.
#
# {{exercise DecoderLayer}}
#
# Three sub-layers, each with a norm of its own, each with dropout on what it gives. Two masks come in: `mask` for the
# targets among themselves, `memory_mask` for the source. Use them as they come: the layer makes no mask of its own.


# %% exercise DecoderLayer
class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention over the memory, feed-forward; around each a residual path and a norm."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.0, norm_first: bool = True):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.cross_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.norm_1 = LayerNorm(d_model)  # for the self-attention
        self.norm_2 = LayerNorm(d_model)  # for the cross-attention
        self.norm_3 = LayerNorm(d_model)  # for the feed-forward network
        self.dropout = nn.Dropout(dropout)  # for what each of the three gives
        self.norm_first = norm_first

    def forward(
        self, x: Tensor, memory: Tensor, mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        """
        x: (batch, target, d_model); memory: (batch, source, d_model), the encoder's result.
        mask: (batch, target, target); memory_mask: (batch, 1 or target, source). True where attention is allowed.
        Returns: one tensor of the shape of x.
        """
        ### BEGIN SOLUTION
        residual = residual_pre_norm if self.norm_first else residual_post_norm

        def attend_to_targets(h: Tensor) -> Tensor:
            output, _ = self.self_attention(h, h, h, mask)
            return self.dropout(output)

        def attend_to_source(h: Tensor) -> Tensor:
            output, _ = self.cross_attention(h, memory, memory, memory_mask)
            return self.dropout(output)

        def transform(h: Tensor) -> Tensor:
            return self.dropout(self.feed_forward(h))

        x = residual(x, attend_to_targets, self.norm_1)
        x = residual(x, attend_to_source, self.norm_2)
        x = residual(x, transform, self.norm_3)
        return x
        ### END SOLUTION


# %% check DecoderLayer
check(DecoderLayer)

# %% [markdown]
# Again we ask the gradient. Five target positions, six source positions, of which the last two are padding:

# %%
torch.manual_seed(7)
layer = reference.DecoderLayer(16, 4, 32).eval()
x, memory = torch.randn(1, 5, 16), torch.randn(1, 6, 16)
mask = causal_mask(5)[None]  # (1, 5, 5)
memory_mask = padding_mask(torch.tensor([4]), 6)[:, None]  # (1, 1, 6)

fig, axes = plt.subplots(1, 2, figsize=(8, 3.2))
inputs = (layer, x, memory, mask, memory_mask)
for ax, wrt, title, name in (
    (axes[0], x, "dependence on the targets", "target"),
    (axes[1], memory, "dependence on the source", "source"),
):
    show_matrix((dependence(*inputs, wrt=wrt) > 1e-9).float(), title, rows="result", columns=name, ax=ax)
plt.show()

# %% [markdown]
# Left a triangle: no target sees a later one. Right all rows are alike: the *first* target may see the *last* real
# source word. The source is known from the beginning, and a causal mask has no business there.
#
# > **Arguments that do nothing.** A public decoder layer takes `cache=None` and uses it nowhere. You pass a cache, no
# > error comes, and nothing is faster. A quick test for any argument: change it, and see whether the result changes.

# %%
right_result = layer(x, memory, mask, memory_mask)
changed = {
    "memory": layer(x, memory + 1, mask, memory_mask),
    "mask": layer(x, memory, None, memory_mask),
    "memory_mask": layer(x, memory, mask, None),
}
for name, result in changed.items():
    print(f"changing {name:12s} changes the result by up to {(result - right_result).abs().max().item():.2f}")

# %% [markdown]
# ### In your own words
#
# A colleague's cross-attention is called as `self.cross_attention(h, h, h, mask)`. The model trains without an
# error, the loss goes down, and the French that it writes is correct French. What has the model learned, and what
# can it not have learned? Name one test, without any training, that would have shown the mistake. (2 points, read by
# a person.)

# %% answer own_words_cross_attention 2 [markdown]
# ### BEGIN SOLUTION
# Keys and values come from the decoder itself, so nothing of the source reaches the target. The model can learn which
# French is likely (a language model), but not to translate: it writes fluent French about something else. Test: the
# gradient of the result with respect to `memory` is 0 everywhere; or change the memory and see that nothing changes.
# ### END SOLUTION

# %% [markdown]
# ## 6 · The decoder
#
# The decoder's stack is the encoder's with two arguments more. Every layer gets the same memory, and the memory is
# what the *last* encoder layer gave. Not layer 1 for layer 1 and layer 2 for layer 2: that is another model, and in the
# first figure it would need $N$ bridges. Do the two really differ? With the same weights in both:

# %%
torch.manual_seed(8)
encoder = reference.Encoder(16, 4, 32, num_layers=3).eval()
decoder = reference.Decoder(16, 4, 32, num_layers=3).eval()
source, x = torch.randn(1, 6, 16), torch.randn(1, 5, 16)

levels, h = [], source  # what each encoder layer gives
for layer in encoder.layers:
    h = layer(h)
    levels.append(h)

one_memory = decoder(x, encoder(source))
matching = x
for layer, level in zip(decoder.layers, levels):
    matching = layer(matching, level)
matching = decoder.norm(matching)
print("largest difference between the two models:", round((one_memory - matching).abs().max().item(), 2))

# %% [markdown]
# {{exercise Decoder}}
#
# Build it from `reference.DecoderLayer`. Both masks go to every layer as they come.


# %% exercise Decoder
class Decoder(nn.Module):
    """A stack of decoder layers, each with weights of its own. All of them read the same memory.

    `self.layers`: an nn.ModuleList of num_layers layers; x goes through layers[0] first.
    `self.norm`: the LayerNorm at the end if norm_first; otherwise none is applied.
    """

    def __init__(
        self, d_model: int, num_heads: int, d_ff: int, num_layers: int, dropout: float = 0.0, norm_first: bool = True
    ):
        super().__init__()
        ### BEGIN SOLUTION
        self.layers = nn.ModuleList(
            reference.DecoderLayer(d_model, num_heads, d_ff, dropout, norm_first) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()
        ### END SOLUTION

    def forward(
        self, x: Tensor, memory: Tensor, mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        """
        x: (batch, target, d_model); memory: (batch, source, d_model).
        mask: (batch, target, target); memory_mask: (batch, 1 or target, source). Returns: the shape of x.
        """
        ### BEGIN SOLUTION
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return self.norm(x)
        ### END SOLUTION


# %% check Decoder
check(Decoder)

# %% [markdown]
# Now both stacks together, from ids to vectors. Target ids go through a table and positions of their own, exactly as
# the source does. What is missing for a whole Transformer is the output layer and a model that builds the three
# masks by itself: the next notebook.

# %%
torch.manual_seed(9)
d_model, pad = 32, 0
source_ids = torch.tensor([[5, 9, 2, 7, 5, 8], [4, 4, 3, pad, pad, pad]])  # (batch, source)
target_ids = torch.tensor([[1, 6, 3, 9, 4], [1, 7, 7, pad, pad]])  # (batch, target), 1 begins a sentence

target_embedding = TokenEmbedding(120, d_model, pad)
positions = PositionalEncoding(d_model, max_len=50)
decoder = reference.Decoder(d_model, num_heads=4, d_ff=64, num_layers=3).eval()

memory = source_side(source_ids)
x = positions(target_embedding(target_ids))
mask = causal_mask(5) & (target_ids != pad)[:, None]  # no future, no padding
memory_mask = (source_ids != pad)[:, None]
result = decoder(x, memory, mask, memory_mask)
for name in ("source_ids", "memory", "target_ids", "x", "mask", "memory_mask", "result"):
    print(f"{name:14s}{tuple(globals()[name].shape)}")

# %% [markdown]
# And the picture that says whether it is right: does the result at each target position depend on each source
# position (s0 to s5) and on each target position (t0 to t4)? One map for each sentence, through three layers of both
# stacks:

# %%
embedded = source_side.positions(source_side.embedding(source_ids)).detach().requires_grad_()
targets = x.detach().requires_grad_()
result = decoder(targets, source_side.encoder(embedded, memory_mask), mask, memory_mask)
fig, axes = plt.subplots(1, 2, figsize=(9, 4), sharex=True)
for ax, sentence in zip(axes, (0, 1)):
    rows = []
    for i in range(5):
        number = result[sentence, i] @ torch.linspace(-1, 1, d_model)
        slopes = torch.autograd.grad(number, (embedded, targets), retain_graph=True)
        rows.append(torch.cat([slope[sentence].norm(dim=-1) for slope in slopes]))
    names = [f"s{j}" for j in range(6)] + [f"t{j}" for j in range(5)]
    title = f"sentence {sentence}" + (": 3 source and 3 target words are real" if sentence else ": all real")
    show_matrix(
        (torch.stack(rows) > 1e-9).float(), title, rows="result at target", columns="source | target",
        column_names=names, numbers=False, ax=ax,
    )  # fmt: skip
    ax.axvline(5.5, color="white")
plt.show()

# %% [markdown]
# Left: every target sees all six source words, and the targets up to itself. Right: the source's padding (s3 to s5) is
# invisible to everyone, and the padded targets t3 and t4 are seen by nobody but themselves.
#
# You can read this picture as the specification of an encoder-decoder. A model with a wrong mask, a wrong key or a
# lost residual path draws another one, before the first step of training.

# %% [markdown]
# ## What you can do now
#
# - draw the whole architecture with the shape on every arrow, and say which parts mix positions;
# - wire an encoder layer (two sub-layers) and a decoder layer (three), pre-norm and post-norm;
# - stack layers that share nothing, and tell from a parameter count when they do;
# - say why layers wait for each other and positions do not;
# - say where Q, K and V of a cross-attention come from, which mask it needs, and which not;
# - find a leak, a lost residual path or an ignored argument with a gradient, before any training.
#
# **To read.** Vaswani et al., *Attention Is All You Need* (2017), section 3.1. Xiong et al., *On Layer Normalization
# in the Transformer Architecture* (2020), on pre-norm and post-norm. Rush, *The Annotated Transformer* (2018), the
# paper as code. Dehghani et al., *Universal Transformers* (2019), and Lan et al., *ALBERT* (2020), which share
# layers on purpose.
