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
# You have built attention, masks, positions, norms and residual connections. In this notebook you wire them into the
# four modules that make up a Transformer: the encoder layer, the encoder, the decoder layer and the decoder. Nothing
# new is computed here. Only the wiring can go wrong, and most wiring mistakes are silent. So you will also hunt bugs in
# a layer like the ones people publish.

# %% setup
from itertools import pairwise

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

from course_lib import check, hint, solution
from course_lib import encoder_decoder as reference
from course_lib.interactive import attention_explorer, translation_attention
from course_lib.masks import causal_mask, padding_mask
from course_lib.multi_head_attention import MultiHeadAttention
from course_lib.plotting import PARTS, show_map, show_matrix, use_course_style
from course_lib.positions import PositionalEncoding
from course_lib.settings import course_device
from course_lib.start_here import pad_batch
from course_lib.sublayers import FeedForward, LayerNorm, TokenEmbedding, residual_post_norm, residual_pre_norm
from course_lib.training import shift_right
from course_lib.translation import BOS, PAD, english_vocabulary, french_vocabulary, load_translator, translate

torch.manual_seed(0)
use_course_style()
device = course_device()

# %% figure Where this notebook is on the map
show_map("06_encoder_decoder")

# %% [markdown]
# ## 1 · What flows where
#
# To translate "the cat is on the mat", a model has to do two different jobs.
#
# - The **{{term encoder}}** reads the source. The whole sentence is known from the start, so every position may look at
#   every other. Its output, one vector per source token, is called the **{{term memory}}**.
# - The **{{term decoder}}** writes the target, one word after another. A position may look at the target words before
#   it, and at the whole memory.
#
# Each of the two is a stack of $N$ layers with the same structure ($N = 6$ in the paper; there is nothing magic about
# six). The figure shows the shape of what runs along each arrow, for a batch of sentences with $m$ source positions and
# $n$ target positions, the width $d_\text{model}$, and $V$ words in the target {{term vocabulary}}.

# %% figure The Transformer with the shape on every arrow
WHITE_TEXT = ("positions", "output")


def box(ax, x, y, text, part, width=2.6, height=0.5):
    colour = PARTS.get(part, "white")
    ax.add_patch(plt.Rectangle((x - width / 2, y - height / 2), width, height, facecolor=colour, edgecolor="black"))
    ax.text(x, y, text, ha="center", va="center", fontsize=9, color="white" if part in WHITE_TEXT else "black")


def arrow(ax, *points):
    for (x1, y1), (x2, y2) in pairwise(points[:-1]):
        ax.plot([x1, x2], [y1, y2], color="black", linewidth=1.2)
    ax.annotate("", points[-1], points[-2], arrowprops={"arrowstyle": "-|>", "color": "black", "linewidth": 1.2})


def label(ax, x, y, text):
    ax.text(x + 0.12, y, text, fontsize=8, va="center")


fig, ax = plt.subplots(figsize=(9, 8.8))
left, right = 2.4, 7.4
columns = {
    left: [
        (-0.9, "source ids", ""),
        (0.2, "embedding · √d_model", "embedding"),
        (1.0, "+ positions", "positions"),
        (2.7, "self-attention", "attention"),
        (3.5, "add, norm", "norm"),
        (4.7, "feed-forward", "feed_forward"),
        (5.5, "add, norm", "norm"),
    ],
    right: [
        (-0.9, "target ids so far", ""),
        (0.2, "embedding · √d_model", "embedding"),
        (1.0, "+ positions", "positions"),
        (2.7, "masked self-attention", "attention"),
        (3.5, "add, norm", "norm"),
        (4.7, "cross-attention", "attention"),
        (5.5, "add, norm", "norm"),
        (6.7, "feed-forward", "feed_forward"),
        (7.5, "add, norm", "norm"),
        (9.1, "output layer", "output"),
    ],
}
for x, boxes in columns.items():
    for y, text, part in boxes:
        box(ax, x, y, text, part)
    for (low, *_), (high, *_) in pairwise(boxes):
        arrow(ax, (x, low + 0.25), (x, high - 0.25))
for x, length in ((left, "m"), (right, "n")):
    label(ax, x, -0.35, f"(batch, {length})")
    label(ax, x, 1.45, f"(batch, {length}, d_model)")
label(ax, right, 8.35, "(batch, n, d_model)")
arrow(ax, (right, 9.35), (right, 9.95))
label(ax, right, 9.65, "logits (batch, n, V)")
for x, sublayers in ((left, (2.7, 4.7)), (right, (2.7, 4.7, 6.7))):  # the residual paths around the sub-layers
    outside = -1.75 if x == left else 1.75
    for y in sublayers:
        arrow(ax, (x, y - 0.5), (x + outside, y - 0.5), (x + outside, y + 0.8), (x + outside * 1.3 / 1.75, y + 0.8))
for x, top, part in ((left, 6.05, "encoder"), (right, 8.0, "decoder")):
    frame = {"facecolor": "none", "edgecolor": PARTS[part], "linestyle": "--", "linewidth": 2}
    ax.add_patch(plt.Rectangle((x - 2.1, 1.9), 4.2, top - 1.9, **frame))
    ax.text(x - 2.1, 1.65, f"N × {part} layer", fontsize=9, color=PARTS[part])
arrow(ax, (left, 5.75), (left, 6.9), (4.9, 6.9), (4.9, 4.7), (right - 1.3, 4.7))
ax.text(left + 0.1, 7.02, "memory (batch, m, d_model)", fontsize=8)
ax.text(5.4, 4.83, "K, V", fontsize=8)
ax.text(right - 0.12, 4.2, "Q", fontsize=8, va="center", ha="right")
ax.set(xlim=(-0.2, 10), ylim=(-1.3, 10.1), title="The Transformer, post-norm as in the paper")
ax.axis("off")
plt.show()

# %% [markdown]
# Follow three things with your finger.
#
# 1. **The shape.** A layer maps $(\text{batch}, n, d_\text{model})$ to the same shape. That is why layers can be
#    stacked, and why $x$ can be added to the output of a sub-layer.
# 2. **The one bridge.** Source and target meet in one place only, the {{term cross-attention}}. What crosses is the
#    output of the *last* encoder layer, and every decoder layer gets the same.
# 3. **What moves information.** Only the attention boxes (orange), as you saw in notebook 1.
#
# Not drawn: {{term dropout}} is applied to each sub-layer's output before it is added.
#
# In **{{term pre-norm}}** models (GPT-2, Llama and most large language models) each {{term LayerNorm|norm}} stands
# *before* its sub-layer instead of after the addition, and one more stands at the end of each stack. The paper is
# **{{term post-norm}}**, and so are BERT, RoBERTa, BART and DeBERTa. You will build both.
#
# > **Spot the mistake.** A tutorial, explaining the left column, writes: "the *decoder* has two layers: a
# > self-attention layer and a feed-forward layer". There are two slips in this sentence. Which?
#
# <details><summary>Answer</summary>
#
# The text describes the encoder, and these are not layers but sub-layers of one layer. An encoder layer has two
# sub-layers; a decoder layer has three, with cross-attention between the other two.
#
# </details>
#
# ## 2 · The encoder layer
#
# First, only the shapes: two sentences of four tokens, with the paper's sizes. We do by hand what a post-norm layer
# does, and print the shape after every step.

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

# %% claims
claim("a layer keeps the shape", steps["x"].shape == steps["norm_2(h + output)"].shape)
claim("the hidden layer is wider", steps["hidden layer of the feed-forward network"].shape[-1] == 2048)

# %% [markdown]
# In: $(2, 4, 512)$. Out: $(2, 4, 512)$. In between, the vectors are wider once (2048 hidden features, {{term d_ff}}),
# and each of the 8 heads has a $4 \times 4$ matrix of {{term attention weights|weights}}.
#
# The norm can stand in two places. For every sub-layer $F$:
#
# $$\text{post-norm:}\quad x \leftarrow \mathrm{norm}\big(x + \mathrm{dropout}(F(x))\big)
# \qquad\qquad
# \text{pre-norm:}\quad x \leftarrow x + \mathrm{dropout}\big(F(\mathrm{norm}(x))\big)$$
#
# An encoder layer does this twice: first with $F_1(h) = \mathrm{MultiHead}(h, h, h)$ and `norm_1`, then with the
# {{term feed-forward network}} $F_2$ and `norm_2`. Dropout is applied to the sub-layer's output, not to the sum: that
# would knock holes into the residual path itself.
#
# {{exercise EncoderLayer}}
#
# `__init__` is given, with all the parts. You write how they are wired. `residual_pre_norm` and `residual_post_norm`
# from notebook 5 are imported; two plain branches are just as good. Use the names that are there: the check loads its
# own numbers into `norm_1`, `attention` and the rest, and compares with the right result. If you are stuck, run
# `hint("EncoderLayer")` in a new cell; after a real attempt, `solution("EncoderLayer")` opens too.


# %% exercise EncoderLayer
class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network, each with a residual connection and a norm."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.0, norm_first: bool = True):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads, dropout)  # (q, k, v, mask) -> (output, weights)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.norm_1 = LayerNorm(d_model)  # for the attention
        self.norm_2 = LayerNorm(d_model)  # for the feed-forward network
        self.dropout = nn.Dropout(dropout)  # for the output of both
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
# What does the layer let through? The {{term gradient}} can tell: does the result at position $i$ depend on the input
# at position $j$? Here are six positions, the last two of them {{term padding}}, without and with the mask:


# %%
def dependence(module, x, *rest, wrt=None):
    """(row, column): 1 where the result at a position depends on a position of x (or of `wrt`)."""
    wrt = x if wrt is None else wrt
    wrt.requires_grad_()
    result = module(x, *rest)[0] @ torch.linspace(-1, 1, x.shape[-1])  # one number per position
    rows = [torch.autograd.grad(number, wrt, retain_graph=True)[0][0] for number in result]
    return (torch.stack([row.norm(dim=-1) for row in rows]) > 1e-9).float()


torch.manual_seed(1)
layer = reference.EncoderLayer(16, 4, 32).eval()
x = torch.randn(1, 6, 16)
real = padding_mask(torch.tensor([4]), 6)[:, None]  # (1, 1, 6)
without_mask, with_mask = dependence(layer, x, None), dependence(layer, x, real)

# %% claims
claim("without a mask everything is seen", bool(without_mask.all()))
claim("no real position sees padding", not with_mask[:4, 4:].any())
claim("each padded position keeps itself and sees no other padding", torch.equal(with_mask[4:, 4:], torch.eye(2)))

# %% figure What an encoder layer lets through
fig, axes = plt.subplots(1, 2, figsize=(8, 3.4))
for ax, seen, title in ((axes[0], without_mask, "no mask"), (axes[1], with_mask, "positions 4 and 5 are padding")):
    show_matrix(seen, title, rows="result", columns="input", limits=(0, 1), ax=ax)
plt.show()

# %% [markdown]
# In the right picture nobody attends to the padding. The two ones at the lower right come from the residual connection:
# even a padded position keeps itself. Its result means nothing, but no real position sees it, in this layer or in a
# later one.
#
# So an encoder layer needs no {{term causal|causal mask}}, but it does need the padding mask. "Attention is global
# here, so the mask is None" is right for a single sentence and wrong for a padded {{term batch}}.
#
# ### A layer by another name
#
# Many texts call this module a *Transformer block* and build it post-norm, with a hidden layer (d_ff) of
# $4 \times$ the width. That is a choice of arguments, not a different module:

# %%
block = reference.EncoderLayer(d_model=512, num_heads=8, d_ff=4 * 512, norm_first=False)
sizes = {name: sum(p.numel() for p in part.parameters()) for name, part in block.named_children()}
for name, size in {**sizes, "together": sum(sizes.values())}.items():
    print(f"{name:14s}{size:>10,d} parameters")

# %% claims
claim("the attention has 1,050,624 parameters", sizes["attention"] == 4 * 512**2 + 4 * 512 == 1_050_624)
claim("the network has 2,099,712", sizes["feed_forward"] == 2 * 4 * 512**2 + 2048 + 512 == 2_099_712)
claim("two thirds of a layer", abs(sizes["feed_forward"] / sum(sizes.values()) - 2 / 3) < 0.01)

# %% [markdown]
# By hand: the attention has $4 \cdot 512^2 + 4 \cdot 512 = 1\,050\,624$ parameters, the feed-forward network
# $2 \cdot 4 \cdot 512^2 + 2048 + 512 = 2\,099\,712$. Two thirds of a layer are its feed-forward network.

# %% [markdown]
# ## 3 · A bug hunt
#
# The layer below uses torch's `nn.MultiheadAttention`. It is close to what you find on the web, and it has several
# bugs. Read it before you go on, and write down what you find. (It is post-norm only, so there is no `norm_first`.)


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
# **Bug 1** is a kind one: the code stops. Attention returns two things, and dropout cannot be applied to a tuple. We
# take the first.


# %%
class Published2(Published):
    def attend(self, x, mask):
        return self.attention(x, x, x, mask)[0]


torch.manual_seed(0)
layer = Published2(16, 4, 32).eval()
x.requires_grad_()
(slope,) = torch.autograd.grad(layer(x)[0, 0] @ torch.linspace(-1, 1, 16), x)  # of the first token's result
print("in", tuple(x.shape), " out", tuple(layer(x).shape))

# %% [markdown]
# It runs, and the shape is right. Is it correct now? The last lines have asked the gradient: which inputs does the
# *first token of the first sentence* depend on?

# %% figure What the first token of the first sentence depends on
show_matrix(
    slope.norm(dim=-1),
    "Result of sentence 0, token 0:\nwhat does it depend on?",
    rows="sentence",
    columns="token",
)
plt.show()

# %% claims
claim("it depends on the other sentence's first token", slope[1, 0].norm() > 1e-3)
claim("and on no other token of its own", slope[0, 1:].norm() < 1e-9)

# %% [markdown]
# **Bug 2.** It depends on the first token of the *other* sentence, and on no other token of its own. This is trap 2 of
# notebook 4: `batch_first=True` is missing, so torch took our sentences for time steps. No shape gave it away.
#
# Now the mask. We make the layer causal for once (True = hidden, torch's convention), and pass the mask as `Published`
# does, as the fourth argument.


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

# %% claims
claim("sentence 0 sees its first token only", torch.allclose(weights[0], torch.eye(4)[:1].expand(4, 4)))

# %% [markdown]
# **Bug 3.** The fourth argument is `key_padding_mask`, of shape (batch, key). With two sentences the shapes do not
# fit, and torch complains. With as many sentences as tokens they fit by accident: row $b$ of the causal mask is taken
# for the padding of sentence $b$, and sentence 0 may look at its first token only. A mask of pairs is called
# `attn_mask`, and it has to be passed by name.
#
# A test with batch size 4 and length 4 would never have found this. **Make all sizes different**: it is the cheapest
# test there is.
#
# Is it right now? Let the check of the exercise decide. With `practice=True` nothing is counted.


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


report = check("EncoderLayer", Repaired, practice=True)
report

# %% claims
claim("the check names the missing dropout", "Dropout" in repr(report) and report.misconception is not None)

# %% [markdown]
# **Bug 4** came in with the repair, and the check names it. Which line would you change? A public encoder has this bug
# too. In evaluation mode dropout does nothing, so no test that calls `.eval()` can see it.
#
# <details><summary>Answer</summary>
#
# The last line of `attend`: it should return `self.dropout(self.attention(x, x, x, attn_mask=mask)[0])`.
#
# </details>
#
# ### Four ways to lose x
#
# {{term residual connection|Residual connections}} break silently as well. Below are the right line and four small
# slips in a pre-norm layer. They all run, and they all keep the shape. One test tells them apart at once: let the
# sub-layer $f$ return **zeros**, and look at what comes through. Here is one token with three features,
# $x = (1, 2, 6)$, with mean 3:


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

# %% claims
through = [path(x, nothing, LayerNorm(3)) for path in slips.values()]
claim("only the right one lets x through", [torch.equal(y, x) for y in through] == [True, False, False, False, False])
claim("doubled and inside lose everything", not through[1].any() and not through[3].any())
claim("the other two lose the mean", all(abs(through[i].mean().item()) < 1e-5 for i in (2, 4)))

# %% [markdown]
# If a sub-layer contributes nothing, $x$ should come through unchanged. "Doubled" and "inside" lose all of it, the
# other two lose its mean and its length. In a deep stack the gradient has to travel the same path. The check of your
# layer asks exactly this, under the name "x itself runs past both sub-layers".
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
# Four spaces too many, and `forward` is a local function of `__init__` that nobody calls. Python sees nothing wrong
# with that.

# %% [markdown]
# ## 4 · The encoder
#
# The encoder is $N$ layers, one after another. "The same structure" does not mean "the same weights": each layer has
# its own. Here is how people get that wrong.

# %%
layer = reference.EncoderLayer(512, 8, 2048)
shared = nn.ModuleList([layer] * 6)
separate = nn.ModuleList(reference.EncoderLayer(512, 8, 2048) for _ in range(6))

for name, layers in (("[layer] * 6", shared), ("six calls of EncoderLayer", separate)):
    same = layers[0].attention.w_q.weight is layers[5].attention.w_q.weight
    count = sum(p.numel() for p in layers.parameters())
    print(f"{name:28s}{len(layers)} layers, first and last hold the same matrix: {same!s:6s}{count:>12,d} parameters")

for name, layers in (("ModuleList", separate), ("plain list", list(separate))):
    model = nn.Module()
    model.layers = layers
    print(f"{name:28s}the model knows of {sum(p.numel() for p in model.parameters()):,d} parameters")

# %% claims
counts = [sum(p.numel() for p in layers.parameters()) for layers in (shared, separate)]
claim("a sixth of the parameters", 6 * counts[0] == counts[1])
claim("torch does not look into a plain list", not list(model.parameters()))

# %% [markdown]
# `[layer] * 6` is a list of six names for one object. The model runs, with a sixth of its parameters. (Some models,
# such as ALBERT, share their layers to stay small. That should be a decision, not an accident.) A plain Python list
# fails the other way round: torch does not look inside, so no {{term optimiser}} ever sees the weights.
#
# ### Layers one after another, positions all at once
#
# Layer 2 needs *all* results of layer 1, since each of its positions looks at all the others. So layers run in
# sequence. Within a layer no position waits for another. We can compute them one query at a time, in any order, and
# compare:

# %%
torch.manual_seed(2)
layer = reference.EncoderLayer(16, 4, 32).eval()
x = torch.randn(1, 7, 16)
at_once = layer(x)

h = layer.norm_1(x)  # each position on its own
one_by_one = torch.empty_like(x)
for i in (3, 6, 0, 5, 1, 4, 2):  # any order
    position = x[:, i : i + 1]
    position = position + layer.attention(h[:, i : i + 1], h, h)[0]  # one query, all keys
    one_by_one[:, i : i + 1] = position + layer.feed_forward(layer.norm_2(position))
difference = (one_by_one - at_once).abs().max().item()
print(f"seven positions, one by one and all at once: largest difference {difference:.0e}")

# %% claims
claim("one by one in any order is the same as all at once", difference < 1e-5)

# %% [markdown]
# For a sentence of 50 words and 6 layers, that makes 6 steps that have to wait for each other. A single
# {{term recurrent network|recurrent}} layer needs 50. That, and not a smaller number of operations, is why Transformers
# train fast on hardware that does many things at once.
#
# ### One more norm
#
# In post-norm mode each layer ends with a norm. In pre-norm mode nothing ever normalises the sum that runs past the
# sub-layers, and every layer adds to it. The figure shows twelve pre-norm layers, freshly initialised and with the
# weights of the feed-forward networks doubled (as training might do), and twelve post-norm layers:

# %% figure How large the features get
fig, ax = plt.subplots(figsize=(6.5, 3))
growth = {}
for name, norm_first, factor, style in (
    ("pre-norm, weights doubled", True, 2, "^:"),
    ("pre-norm, freshly initialised", True, 1, "o-"),
    ("post-norm, weights doubled", False, 2, "s--"),
):
    torch.manual_seed(4)
    stack = reference.Encoder(64, 4, 256, num_layers=12, norm_first=norm_first).eval()
    h = torch.randn(2, 10, 64)
    growth[name] = [h.pow(2).mean().sqrt().item()]
    with torch.no_grad():
        for layer in stack.layers:
            for parameter in layer.feed_forward.parameters():
                parameter.mul_(factor)
            h = layer(h)
            growth[name].append(h.pow(2).mean().sqrt().item())
    ax.plot(range(13), growth[name], style, label=name, markersize=4)
ax.set(title="Typical size of a feature after each layer", xlabel="layer", ylabel="root mean square", ylim=(0, None))
ax.legend(frameon=False, fontsize=8)
plt.show()

# %% claims
before = growth["pre-norm, weights doubled"]
claim("the pre-norm sum grows with every layer", all(a < b for a, b in pairwise(before)))
claim("post-norm keeps it at 1", all(abs(size - 1) < 0.05 for size in growth["post-norm, weights doubled"][1:]))

# %% [markdown]
# The pre-norm sum grows from layer to layer. Whatever reads it next should get it at size 1, so a pre-norm stack ends
# with one more norm. A post-norm stack needs none, and the paper has none. (`nn.Transformer` puts one there in both
# modes. You notice it when you copy weights from one to the other, as you will in notebook 7.)
#
# $$\mathrm{Encoder}(x) = \mathrm{norm}\big(\mathrm{layer}_N(\cdots\,\mathrm{layer}_2(\mathrm{layer}_1(x)))\big)
# \qquad\text{with the norm in pre-norm mode only}$$
#
# {{exercise Encoder}}
#
# This time `__init__` is yours too. Build the layers from `reference.EncoderLayer`, so that this exercise does not
# depend on the one before. It takes the same arguments, without `num_layers`.


# %% exercise Encoder
class Encoder(nn.Module):
    """A stack of encoder layers, each with its own weights.

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
        Returns: the output of the last layer, of the shape of x.
        """
        ### BEGIN SOLUTION
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)
        ### END SOLUTION


# %% check Encoder
check(Encoder)

# %% [markdown]
# ### What stands in front of the stack
#
# `Encoder` takes vectors. In front of it, {{term token|token ids}} become vectors: a row of the {{term embedding}}
# table for each id, times $\sqrt{d_\text{model}}$; then the {{term positional encoding|position vectors}} are added,
# and dropout is applied to the sum. You built all of this in earlier notebooks.


# %%
class SourceSide(nn.Module):
    """ids (batch, source) -> memory (batch, source, d_model)."""

    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, dropout=0.1, max_len=50):
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, d_model, pad_id=PAD)
        self.positions = PositionalEncoding(d_model, max_len)
        self.dropout = nn.Dropout(dropout)
        self.encoder = reference.Encoder(d_model, num_heads, d_ff, num_layers, dropout)

    def forward(self, ids):
        x = self.dropout(self.positions(self.embedding(ids)))
        return self.encoder(x, (ids != PAD)[:, None])  # the padding mask, from the ids


torch.manual_seed(3)
english = english_vocabulary()
sources = ["the cat is on the mat", "the cat"]
source_ids, _ = pad_batch([english.encode(sentence.split()) for sentence in sources], PAD)  # with <eos> at the end
source_side = SourceSide(len(english), d_model=32, num_heads=4, d_ff=64, num_layers=3).eval()
print("ids", tuple(source_ids.shape), "-> memory", tuple(source_side(source_ids).shape))
print("parameters of the position table:", sum(p.numel() for p in source_side.positions.parameters()))
try:
    source_side(torch.ones(1, 51, dtype=torch.long))
except ValueError as error:
    print("ValueError:", error)

# %% claims
claim("the sinusoids are not trained", not list(source_side.positions.parameters()))

# %% [markdown]
# The sinusoids are fixed: a {{term buffer}}, with nothing to train. Other code achieves the same with a frozen
# embedding. Mind the end of the table. A source that is too long should raise an error that says so, not
# `index out of range in self`.

# %% [markdown]
# ## 5 · The decoder layer
#
# The decoder layer has one more sub-layer. After the targets have looked at each other (only backwards: causal mask),
# each of them looks at the source. That is the attention you know, with its inputs from two places:
#
# $$\mathrm{CrossAttention} = \mathrm{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V
# \qquad Q = h\,W^Q,\quad K = \text{memory}\,W^K,\quad V = \text{memory}\,W^V$$
#
# The $n$ {{term query|queries}} come from the targets, so there are $n$ results. The $m$ {{term key|keys}} come from
# the source, so each query has $m$ weights. If you swap the two, the shapes tell you:

# %%
torch.manual_seed(6)
attention = MultiHeadAttention(16, 4)
h, memory = torch.randn(2, 5, 16), torch.randn(2, 6, 16)  # 5 target positions, 6 source positions
for name, inputs in (("queries from the targets", (h, memory, memory)), ("swapped", (memory, h, h))):
    output, weights = attention(*inputs)
    print(f"{name:26s} output {tuple(output.shape)}   weights {tuple(weights.shape)}")

# %% claims
claim("n results with m weights each", attention(h, memory, memory)[1].shape[2:] == (5, 6))
claim("swapped, there are m results", attention(memory, h, h)[0].shape[1] == 6)

# %% [markdown]
# What do such weights look like once they have learned something? The course comes with a small translator, of the kind
# that *you* will train in notebook 8. For each French word, the figure shows where the decoder looked in the English
# sentence while *writing* it ("chat → noir": it has just read *chat* and writes *noir*). Choose layers and heads.

# %%
translator = load_translator().to(device)
sentence = "the black cat is on the mat"
print(f"{sentence}  →  {translate(translator, [sentence])[0]}")
cross = translation_attention(translator, sentence)[-1]  # the last of three kinds: cross-attention

# %% figure Where the decoder looks while it writes each word
attention_explorer([cross])

# %% claims
looked_at = cross.weights[-1].mean(dim=0).argmax(dim=-1).tolist()
claim("it is the French we expect", translate(translator, [sentence]) == ["le chat noir est sur le tapis"])
claim("noir comes from black and chat from cat", looked_at[:3] == [0, 2, 1])

# %% [markdown]
# One row per target word, one column per source word, and each row sums to 1: the result of a row is the weighted
# average of the source positions' {{term value|values}}. The large weights leave the diagonal where French puts the
# adjective after its noun ("black cat", "chat noir"). Nobody told the model which word belongs to which.
#
# One detail that is often wrong: **no norm of the decoder touches the memory.** In pre-norm mode `norm_2` is for the
# targets, from which the queries are made. The memory was already normalised at the end of the encoder.
#
# {{exercise DecoderLayer}}
#
# There are three sub-layers, each with its own norm, and dropout on the output of each. Two masks come in: `mask` for
# the targets among themselves, `memory_mask` for the source. Use them as they come: the layer makes no mask of its
# own.


# %% exercise DecoderLayer
class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention to the memory, feed-forward; each with a residual path and a norm."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.0, norm_first: bool = True):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.cross_attention = MultiHeadAttention(d_model, num_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.norm_1 = LayerNorm(d_model)  # for the self-attention
        self.norm_2 = LayerNorm(d_model)  # for the cross-attention
        self.norm_3 = LayerNorm(d_model)  # for the feed-forward network
        self.dropout = nn.Dropout(dropout)  # for the output of each of the three
        self.norm_first = norm_first

    def forward(
        self, x: Tensor, memory: Tensor, mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        """
        x: (batch, target, d_model); memory: (batch, source, d_model), the encoder's output.
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
# Again we ask the gradient. There are five target positions and six source positions, the last two of them padding:

# %%
torch.manual_seed(7)
layer = reference.DecoderLayer(16, 4, 32).eval()
x, memory = torch.randn(1, 5, 16), torch.randn(1, 6, 16)
mask = causal_mask(5)[None]  # (1, 5, 5)
memory_mask = padding_mask(torch.tensor([4]), 6)[:, None]  # (1, 1, 6)
on_targets = dependence(layer, x, memory, mask, memory_mask)
on_source = dependence(layer, x, memory, mask, memory_mask, wrt=memory)

# %% claims
claim("no target sees a later one", torch.equal(on_targets, causal_mask(5).float()))
claim("every target sees every real source word", torch.equal(on_source, memory_mask[0].expand(5, 6).float()))

# %% figure What a decoder layer lets through
fig, axes = plt.subplots(1, 2, figsize=(8, 3.2))
show_matrix(on_targets, "dependence on the targets", rows="result", columns="target", ax=axes[0])
show_matrix(on_source, "dependence on the source", rows="result", columns="source", ax=axes[1])
plt.show()

# %% [markdown]
# On the left, a triangle: no target sees a later one. On the right, all rows are alike: the *first* target may see the
# *last* real source word. The source is known from the beginning, so cross-attention has no use for a causal mask.
#
# > **Arguments that do nothing.** A public decoder layer takes `cache=None` and uses it nowhere. You pass a cache,
# > there is no error, and nothing gets faster. A quick test for any argument: change it, and see whether the result
# > changes.

# %%
right_result = layer(x, memory, mask, memory_mask)
changed = {
    "memory": layer(x, memory + 1, mask, memory_mask),
    "mask": layer(x, memory, None, memory_mask),
    "memory_mask": layer(x, memory, mask, None),
}
for name, result in changed.items():
    print(f"changing {name:12s} changes the result by up to {(result - right_result).abs().max().item():.2f}")

# %% claims
claim("every argument has an effect", all((r - right_result).abs().max() > 0.01 for r in changed.values()))

# %% [markdown]
# {{question own_words_cross_attention}}
#
# A colleague calls the cross-attention as `self.cross_attention(h, h, h, mask)`. The model trains without an error, the
# loss goes down, and the French that it writes is correct French. What has the model learned, and what can it not have
# learned? Name one test, without any training, that would have shown the mistake.

# %% answer own_words_cross_attention 2 [markdown]
# ### BEGIN SOLUTION
# Keys and values come from the decoder itself, so nothing of the source reaches the target. The model can learn which
# French is likely (a language model), but not to translate: it writes fluent French about something else. Test: the
# gradient of the result with respect to `memory` is 0 everywhere; or change the memory and see that nothing changes.
#
# **Rubric**
#
# - 1 point: a language model of French and no translation, since nothing of the source reaches the target
# - 1 point: a test without training: the gradient with respect to the memory, or another memory and the same result
# ### END SOLUTION

# %% [markdown]
# ## 6 · The decoder
#
# The decoder's stack is the encoder's with two more arguments. Every layer gets the same memory, the output of the
# *last* encoder layer. It is not layer 1 for layer 1 and layer 2 for layer 2: that would be a different model, with
# $N$ bridges in the first figure. Here are both, with the same weights:

# %%
torch.manual_seed(8)
encoder = reference.Encoder(16, 4, 32, num_layers=3).eval()
decoder = reference.Decoder(16, 4, 32, num_layers=3).eval()
source, x = torch.randn(1, 6, 16), torch.randn(1, 5, 16)

one_memory = decoder(x, encoder(source))
matching, level = x, source
for encoder_layer, decoder_layer in zip(encoder.layers, decoder.layers, strict=True):
    level = encoder_layer(level)
    matching = decoder_layer(matching, level)  # layer 1 reads layer 1, layer 2 reads layer 2, …
difference = (one_memory - decoder.norm(matching)).abs().max().item()
print(f"largest difference between the two models: {difference:.2f}")

# %% claims
claim("the two models differ", difference > 0.05)

# %% [markdown]
# {{exercise Decoder}}
#
# Build it from `reference.DecoderLayer`. Both masks go to every layer as they come.


# %% exercise Decoder
class Decoder(nn.Module):
    """A stack of decoder layers, each with its own weights. All of them read the same memory.

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
# Now both stacks together, from ids to vectors. Target ids go through their own embedding and positions, exactly as
# the source does. The decoder is given the target shifted by one place, with the start symbol {{term BOS|`<bos>`}} in
# front: at each position it is to predict the next word. What is missing for a whole Transformer is the output layer,
# and a model that builds the masks by itself. Both come in the next notebook.

# %%
torch.manual_seed(9)
d_model = 32
french = french_vocabulary()
targets, _ = pad_batch([french.encode(s.split()) for s in ("le chat est sur le tapis", "le chat")], PAD)
target_ids = shift_right(targets, BOS)[:, :5]  # the first five: (batch, target)

target_embedding = TokenEmbedding(len(french), d_model, PAD)
positions = PositionalEncoding(d_model, max_len=50)
decoder = reference.Decoder(d_model, num_heads=4, d_ff=64, num_layers=3).eval()

memory = source_side(source_ids)
x = positions(target_embedding(target_ids))
mask = causal_mask(5) & (target_ids != PAD)[:, None]  # no future, no padding
memory_mask = (source_ids != PAD)[:, None]
result = decoder(x, memory, mask, memory_mask)
for name in ("source_ids", "memory", "target_ids", "x", "mask", "memory_mask", "result"):
    print(f"{name:14s}{tuple(globals()[name].shape)}")

recurrent = nn.LSTM(d_model, d_model, batch_first=True)
other_memory, _ = recurrent(source_side.embedding(source_ids))
print("with an LSTM as the encoder:", tuple(decoder(x, other_memory, mask, memory_mask).shape))

# %% [markdown]
# As the last line shows, the decoder does not care where its memory comes from. Encoder and decoder are independent
# modules: the encoder may be a recurrent or convolutional network, or one that somebody else has trained.
#
# And this is the picture that tells whether everything is right. Does the result at each target position depend on each
# source position (left of the white line) and on each target position (right of it)? One map per sentence, through
# three layers of both stacks:

# %% figure Who depends on whom in the whole encoder-decoder
embedded = source_side.positions(source_side.embedding(source_ids)).detach().requires_grad_()
given = x.detach().requires_grad_()
result = decoder(given, source_side.encoder(embedded, memory_mask), mask, memory_mask)
fig, axes = plt.subplots(1, 2, figsize=(10, 3.9))
maps = []
for sentence, (ax, text) in enumerate(zip(axes, sources, strict=True)):
    rows = []
    for i in range(5):
        number = result[sentence, i] @ torch.linspace(-1, 1, d_model)
        slopes = torch.autograd.grad(number, (embedded, given), retain_graph=True)
        rows.append(torch.cat([slope[sentence].norm(dim=-1) for slope in slopes]))
    maps.append((torch.stack(rows) > 1e-9).float())
    target_words = [french.words[i] for i in target_ids[sentence]]
    show_matrix(
        maps[-1], text, rows="result at target position", columns="source | target", row_names=target_words,
        column_names=[english.words[i] for i in source_ids[sentence]] + target_words, numbers=False, ax=ax,
    )  # fmt: skip
    ax.axvline(6.5, color="white", linewidth=3)
plt.show()

# %% claims
claim("every target sees the whole source of sentence 0", bool(maps[0][:, :7].all()))
claim("and the targets up to itself", torch.equal(maps[0][:, 7:], causal_mask(5).float()))
claim("the padding of the source is invisible", not maps[1][:, 3:7].any())
claim("a padded target is seen by itself alone", not maps[1][:4, 11].any() and maps[1][4, 11] == 1)

# %% [markdown]
# Left: every target position sees all of the source, and the targets up to itself. Right: the padding of the source is
# invisible to everyone, and the padded target is seen by nobody but itself.
#
# You can read this picture as the specification of an encoder-decoder. A model with a wrong mask, or with keys from the
# wrong place, draws a different one, before the first step of training.

# %% [markdown]
# ## What you can do now
#
# - draw the whole architecture with the shape on every arrow;
# - wire an encoder layer (two sub-layers) and a decoder layer (three), pre-norm and post-norm;
# - stack layers that share nothing, and tell from a parameter count when they do;
# - say why layers wait for each other and positions do not;
# - say where Q, K and V of a cross-attention come from, which mask it needs, and which not;
# - find a leak or an ignored argument with a gradient, and a lost residual path with a sub-layer that returns zeros,
#   before any training.
#
# **To read.**
#
# - Vaswani et al. 2017, *Attention Is All You Need*, section 3.1.
# - Alammar 2018, *The Illustrated Transformer*, and Rush 2018, *The Annotated Transformer*: the paper in pictures and
#   as code.
# - Sutskever et al. 2014, *Sequence to Sequence Learning with Neural Networks*: encoder and decoder before the
#   Transformer.
# - Xiong et al. 2020, *On Layer Normalization in the Transformer Architecture*: pre-norm and post-norm.
# - Dehghani et al. 2019, *Universal Transformers*, and Lan et al. 2020, *ALBERT*, share layers on purpose.
