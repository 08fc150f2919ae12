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
# # 4 · Multi-head attention: several looks at once
#
# One {{term softmax}} has one unit of attention to share out. A word often needs several looks at once: who did it,
# what was it, for whom? **{{term multi-head attention|Multi-head attention}}** runs several small attentions side by
# side and mixes their results. You will build it step by step, compare it with torch's own, train it on a small task,
# and look at the heads of the course's translator.

# %% setup
import math

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib import check, hint, solution, yours
from course_lib import multi_head_attention as reference
from course_lib.masks import causal_mask, masked_softmax
from course_lib.plotting import COLOURS, PARTS, show_map, show_matrix, use_course_style
from course_lib.progress_bar import bar
from course_lib.settings import course_device

use_course_style()
device = course_device()

# %% figure Where this notebook is on the map
show_map("04_multi_head_attention")

# %% [markdown]
# ## 1 · Why one attention is not enough
#
# Take the sentence **mary gave roses to susan** and look at the word *gave*. It stands in three different relations:
# *mary* is who gave, *roses* is what was given, *susan* is who got them. A good new vector for *gave* would hold all
# three, and keep giver and receiver apart.
#
# Let us give one attention the best weights we can think of: half on the giver, half on the receiver. To make the
# result easy to read, mary's {{term value}} is (1, 0) and susan's is (0, 1).

# %%
values = {"mary": [1.0, 0.0], "gave": [0.0, 0.0], "roses": [0.0, 0.0], "to": [0.0, 0.0], "susan": [0.0, 1.0]}
one_softmax = torch.tensor([0.5, 0.0, 0.0, 0.0, 0.5])  # what "gave" looks at: the giver and the receiver

for sentence in ("mary gave roses to susan", "susan gave roses to mary"):
    v = torch.tensor([values[word] for word in sentence.split()])  # (5, 2)
    print(f"{sentence}:  new vector of 'gave' = {(one_softmax @ v).tolist()}")

# %% claims
stories = [[values[word] for word in s.split()] for s in ("mary gave roses to susan", "susan gave roses to mary")]
claim("two stories, one vector", torch.equal(*(one_softmax @ torch.tensor(story) for story in stories)))

# %% [markdown]
# Two different stories, one vector: the weighted sum has mixed giver and receiver. Other weights do not help much.
# They are never negative and sum to 1, so what one place gains another loses. With (0.7, 0.3) you can tell who gave,
# but the receiver's share is small.
#
# The remedy is simple. Let two attentions look independently, and put their results **side by side** instead of adding
# them up.

# %%
looks_at_giver = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0])
looks_at_receiver = torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0])

results = []
for sentence in ("mary gave roses to susan", "susan gave roses to mary"):
    v = torch.tensor([values[word] for word in sentence.split()])
    results.append(torch.cat([looks_at_giver @ v, looks_at_receiver @ v]))
    print(f"{sentence}:  new vector of 'gave' = {results[-1].tolist()}")

# %% claims
claim("two heads tell the stories apart", not torch.equal(*results))

# %% figure What 'gave' looks at with one head and with three
names = "mary gave roses to susan".split()
fig, axes = plt.subplots(1, 2, figsize=(8.5, 2.4))
three = torch.stack([looks_at_giver, torch.eye(5)[2], looks_at_receiver])
for ax, weights, rows in (
    (axes[0], one_softmax[None], ["the head"]),
    (axes[1], three, ["who?", "what?", "to whom?"]),
):
    title = "one head" if len(rows) == 1 else "three heads"
    show_matrix(weights, title, row_names=rows, column_names=names, rows="", limits=(0, 1), ax=ax)
plt.show()

# %% [markdown]
# Each of these attentions is called a **{{term head}}**. (How a head finds out *which* word is the giver is another
# question. Here we set the weights by hand; at the end of this notebook they are learned.)
#
# Heads give you two things:
#
# - **several places at once**: each head has its own softmax, so a strong look at one word takes nothing from
#   another;
# - **several kinds of similarity**: each head has its own {{term projection|projections}}. What counts as a match in
#   one head (grammar, say) need not count in another.
#
# ### The formula
#
# Head $i$ has three matrices of its own. They bring the inputs down from $d_{\text{model}}$ features to a smaller
# number $d_k$, the {{term d_k|size of a head}}:
#
# $$\text{head}_i = \text{Attention}(Q W_i^Q,\; K W_i^K,\; V W_i^V), \qquad d_k = d_{\text{model}} / h$$
#
# $$\text{MultiHead}(Q, K, V) = \text{Concat}(\text{head}_1, \dots, \text{head}_h)\, W^O$$
#
# > **A trap in the notation.** In many texts $Q$ already means $XW^Q$, and then head $i$ seems to project twice. In
# > this formula $Q$, $K$, $V$ are the **raw inputs**; in {{term self-attention}} all three are the same $X$. Each is
# > projected once.
#
# In the original Transformer $d_{\text{model}} = 512$ and $h = 8$, so each head works with $d_k = 64$ features.
#
# | | shape | with $n = 10$ tokens |
# |---|---|---|
# | $Q$, $K$, $V$ (the inputs) | $n \times d_{\text{model}}$ | 10 × 512 |
# | $W_i^Q$, $W_i^K$, $W_i^V$ | $d_{\text{model}} \times d_k$ | 512 × 64 |
# | $\text{head}_i$ | $n \times d_k$ | 10 × 64 |
# | all heads side by side | $n \times (h \cdot d_k)$ | 10 × 512 |
# | $W^O$ | $(h \cdot d_k) \times d_{\text{model}}$ | 512 × 512 |
# | the result | $n \times d_{\text{model}}$ | 10 × 512 |


# %% figure Multi-head attention in six steps
words = "the cat is on the mat".split()
HEADS = (COLOURS[0], COLOURS[1], COLOURS[2], COLOURS[5])  # one for each of the four heads of this picture
TOP, WORD_HEIGHT = 3.75, 0.38


def block(ax, x, width, colour, text, y=TOP, height=6 * WORD_HEIGHT, size=8):
    ax.add_patch(plt.Rectangle((x, y - height), width, height, facecolor=colour, edgecolor="black", linewidth=0.7))
    ax.text(x + width / 2, y - height / 2, text, ha="center", va="center", fontsize=size)


def connect(ax, start, end, colour="black"):
    ax.annotate("", end, start, arrowprops={"arrowstyle": "->", "lw": 0.9, "color": colour})


fig, ax = plt.subplots(figsize=(9.5, 4.6))
middle = TOP - 3 * WORD_HEIGHT
titles = ["1  sentence", "2  embedding X", "3  project, per head", "4  attend", "5  concat", "6  output"]
for x, title in zip((0.25, 1.65, 3.65, 5.55, 7.45, 9.3), titles):
    ax.text(x, 4.75, title, ha="center", fontsize=9, fontweight="bold")
for i, word in enumerate(words):
    ax.text(0.25, TOP - WORD_HEIGHT * (i + 0.5), word, ha="center", va="center", fontsize=9)
block(ax, 1.1, 1.1, PARTS["embedding"], "6 × 256\n\none row\nper word")
connect(ax, (0.65, middle), (1.05, middle))
for i, colour in enumerate(HEADS):
    y = 4.45 - 1.15 * i
    connect(ax, (2.25, middle + 0.75 - 0.5 * i), (2.75, y - 0.42), colour)
    for j, name in enumerate("QKV"):
        block(ax, 2.8 + 0.58 * j, 0.5, colour + "55", f"${name}_{i + 1}$\n6×64", y, 0.85, 7)
    connect(ax, (4.55, y - 0.42), (5.05, y - 0.42), colour)
    block(ax, 5.1, 0.9, colour + "55", f"head {i + 1}\n6 × 64", y, 0.85)
    connect(ax, (6.05, y - 0.42), (6.62, middle + 0.75 - 0.5 * i), colour)
    block(ax, 6.65 + 0.4 * i, 0.4, colour + "55", f"{i + 1}")
ax.text(7.45, TOP - 6 * WORD_HEIGHT - 0.35, "side by side: 6 × 256", ha="center", fontsize=8)
connect(ax, (8.3, middle), (8.7, middle))
block(ax, 8.75, 1.1, PARTS["attention"], "6 × 256\n\none row\nper word")
ax.text(9.3, TOP - 6 * WORD_HEIGHT - 0.35, "after $W^O$, 256 × 256", ha="center", fontsize=8)
ax.set(xlim=(-0.35, 10.0), ylim=(-0.1, 5.0), title="four heads of d_k = 64, d_model = 256")
ax.axis("off")
plt.show()

# %% [markdown]
# Only the first layer starts from {{term embedding|embeddings}}. Every later layer starts from the output of the layer
# below.
#
# ## 2 · Split and merge
#
# Nobody loops over heads. The projected queries of *all* heads are one tensor (batch, time, d_model), in which the
# first $d_k$ features belong to head 0 (code counts from 0), the next $d_k$ to head 1, and so on. We make the heads an
# axis of their own, (batch, **head**, time, d_k), and then one matrix product attends in all heads at once.
#
# The shape is easy to get. So easy that the wrong way is tempting: ask `view` for the shape you want, in one go. Here
# are 4 tokens with 6 features each; the tens digit says which token a number comes from.

# %%
x = (10 * torch.arange(4)[:, None] + torch.arange(6)).float()[None]  # (1, 4, 6)
wrong = x.view(1, 2, 4, 3)  # (batch, head, time, d_k)? The shape says so.
right = reference.split_heads(x, 2)

# %% figure Two ways to split, of the same shape
fig, axes = plt.subplots(2, 3, figsize=(8.5, 5))
for ax, heads, name in ((axes[0], wrong, "view alone"), (axes[1], right, "the right split")):
    show_matrix(x[0], "x: token t holds t0 to t5", rows="time", columns="feature", limits=(0, 35), ax=ax[0])
    for i in (0, 1):
        columns = "feature of the head"
        show_matrix(heads[0, i], f"{name}: head {i}", rows="time", columns=columns, limits=(0, 35), ax=ax[1 + i])
plt.show()

# %% [markdown]
# Look at the upper row. "Time step 1" of head 0 holds 3, 4, 5: the second half of token **0**. Head 0 sees nothing of
# tokens 2 and 3, and head 1 nothing of tokens 0 and 1. `view` never moves a number: it reads memory in the old order
# and cuts it in new places.
#
# The shape is right and nothing raises. What gives it away is a property from notebook 3: attention without positions
# is {{term equivariance|equivariant}} to {{term permutation|permutations}}. Swap two tokens, and their outputs should
# be swapped, nothing else.


# %%
def good(x: Tensor) -> Tensor:
    return reference.split_heads(x, 2)


def bad(x: Tensor) -> Tensor:
    return x.view(1, 2, 4, 3)


def attend(x: Tensor, split) -> Tensor:
    """Self-attention without projections in the two heads that `split` makes, put back together by its inverse."""
    q = split(x)
    heads = F.scaled_dot_product_attention(q, q, q)
    return reference.merge_heads(heads) if split is good else heads.reshape(x.shape)


torch.manual_seed(0)
tokens = torch.randn(1, 4, 6)
order = torch.tensor([0, 2, 1, 3])  # tokens 1 and 2 change places
differences = {}
for split in (good, bad):
    difference = (attend(tokens[:, order], split) - attend(tokens, split)[:, order]).abs().max()
    differences[split.__name__] = difference.item()
    print(f"{split.__name__:>5} split: swap, then attend, against attend, then swap: differ by {difference:.4f}")

# %% claims
claim("the good split is equivariant, the bad one is not", differences["good"] < 1e-5 < 0.1 < differences["bad"])

# %% [markdown]
# ### Your turn
#
# Cut each token's features into blocks (that moves nothing), and then swap the time axis and the head axis (that
# does):
#
# $$x_{b,\,t,\;i \cdot d_k + j} \;\longrightarrow\; \text{heads}_{b,\,i,\,t,\,j}$$
#
# {{exercise split_heads}}


# %% exercise split_heads
def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Give each head its own block of neighbouring features.

    x: (batch, time, d_model); num_heads divides d_model.
    Returns: (batch, head, time, d_k) with d_k = d_model / num_heads. Head i holds features i·d_k to (i+1)·d_k - 1.
    """
    ### BEGIN SOLUTION
    batch, time, d_model = x.shape
    x = x.reshape(batch, time, num_heads, d_model // num_heads)  # (batch, time, head, d_k)
    return x.transpose(1, 2)  # (batch, head, time, d_k)
    ### END SOLUTION


# %% check split_heads
check(split_heads)

# %% [markdown]
# ### What `transpose` does to memory: view, reshape, contiguous
#
# On the way back there is a famous error message. A tensor is a line of numbers in memory and a rule for walking over
# it: its **strides**. `transpose` only changes the rule. Afterwards neighbours in the tensor are no longer neighbours
# in memory: it is not **contiguous**.

# %%
a = torch.arange(6).reshape(2, 3)
b = a.transpose(0, 1)
print("a:", a.tolist(), " strides", a.stride(), " contiguous:", a.is_contiguous())
print("b:", b.tolist(), " strides", b.stride(), " contiguous:", b.is_contiguous())
print("the same memory:", a.data_ptr() == b.data_ptr())

try:
    b.view(6)
except RuntimeError as error:
    print("\nb.view(6):", str(error).split(". ")[0])
print("b.reshape(6):          ", b.reshape(6).tolist(), " copied:", b.reshape(6).data_ptr() != b.data_ptr())
print("b.contiguous().view(6):", b.contiguous().view(6).tolist(), " the same, with the copy made visible")

# %% claims
claim("transpose moves nothing", a.data_ptr() == b.data_ptr() and not b.is_contiguous())
claim("reshape copies if it must", b.reshape(6).data_ptr() != b.data_ptr() and a.reshape(6).data_ptr() == a.data_ptr())

# %% [markdown]
# - `view` never copies. If the new shape cannot be had without a copy, it refuses.
# - `reshape` copies if it must, and only then.
# - `contiguous()` asks for the copy. Some people prefer `contiguous().view(…)`, because the code then shows where
#   memory is moved.
#
# `merge_heads` undoes `split_heads`: $\;\text{merge}(\text{split}(x)) = x$.
#
# {{exercise merge_heads}}


# %% exercise merge_heads
def merge_heads(x: Tensor) -> Tensor:
    """Put the heads' results side by side again: the inverse of split_heads.

    x: (batch, head, time, d_k). Returns: (batch, time, head · d_k).
    """
    ### BEGIN SOLUTION
    batch, num_heads, time, d_k = x.shape
    x = x.transpose(1, 2)  # (batch, time, head, d_k)
    return x.reshape(batch, time, num_heads * d_k)
    ### END SOLUTION


# %% check merge_heads
check(merge_heads)

# %% figure Merging by reshape alone, and merging
heads = reference.split_heads(x, 2)  # x from above: token t holds t0 to t5
fig, axes = plt.subplots(1, 3, figsize=(9, 2.8))
results = {
    "x": x,
    "split, then reshape alone": heads.reshape(1, 4, 6),
    "split, then merge": reference.merge_heads(heads),
}
for ax, (title, matrix) in zip(axes, results.items()):
    show_matrix(matrix[0], title, rows="time", columns="feature", limits=(0, 35), ax=ax)
plt.show()

# %% [markdown]
# In the middle, "time step 0" consists of the first halves of tokens 0 and 1. Every row should be one token.
#
# ## 3 · The matrices
#
# ### One large matrix, or one for each head?
#
# The formula has separate matrices $W_i^Q$. The code has one large $W^Q$ and splits its *result*. Is that the same?
# Take slices of the large matrix as the heads' matrices, and compare. And which input features does each head's
# {{term query}} depend on? The {{term gradient}} tells.

# %%
torch.manual_seed(0)
d_model, num_heads, d_k = 16, 4, 4
x = torch.randn(1, 5, d_model, dtype=torch.float64, requires_grad=True)
w_q = torch.randn(d_model, d_model, dtype=torch.float64)

from_large = reference.split_heads(x @ w_q, num_heads)  # project, then split
from_slices = torch.stack([x @ w_q[:, i * d_k : (i + 1) * d_k] for i in range(num_heads)], dim=1)
print("largest difference:", (from_large - from_slices).abs().max().item())

depends = []
for i in range(num_heads):
    (slope,) = torch.autograd.grad(from_large[0, i, 0].sum(), x, retain_graph=True)
    depends.append(slope[0, 0].abs())
    print(f"the query of head {i} depends on {int((slope[0, 0] != 0).sum())} of {d_model} input features")

# %% claims
claim("slices and the large matrix agree", bool((from_large - from_slices).abs().max() < 1e-12))
claim("every head reads all input features", all(bool((row > 0).all()) for row in depends))

# %% figure Do heads cut up the input?
fig, axes = plt.subplots(1, 2, figsize=(9, 2.5))
cut = torch.block_diag(*torch.ones(4, 1, 4))
for ax, matrix, title in (
    (axes[0], cut, "if heads cut up the input"),
    (axes[1], torch.stack(depends), "measured: |gradient|"),
):
    show_matrix(matrix, title, rows="head", columns="input feature", numbers=False, ax=ax)
    ax.set_xticks([0, 4, 8, 12])
plt.show()

# %% [markdown]
# The same numbers. The large matrix is not *shared* between the heads, as one sometimes reads: it is **sliced**, and
# no two heads have a weight in common. Nor do heads divide the *input* among themselves: every head reads **all** input
# features through its own slice. What is divided is the projected space. Project first, split afterwards.
#
# ### How many parameters?
#
# A single head of full size has three matrices of $d_{\text{model}} \times d_{\text{model}}$. Now there are $h$
# heads, but smaller ones. For $d_{\text{model}} = 256$ and $h = 4$, the matrix $W_1^Q$ is 256 × 64 and holds 16,384
# numbers. How many numbers are there in all matrices of all heads? What does $W^O$ add? A {{term bias}} has one number
# for each output of its map: how many are there? Derive the count on paper, then write it down as code. Does the total
# depend on $h$?
#
# {{exercise multi_head_parameters}}


# %% exercise multi_head_parameters
def multi_head_parameters(d_model: int, num_heads: int, bias: bool) -> int:
    """How many numbers does multi-head attention learn?

    Each of num_heads heads has three matrices (query, key, value) from d_model to d_k = d_model / num_heads features.
    One matrix W_O maps all heads side by side to d_model features.
    bias: whether each of these maps also adds one learned number to each of its outputs.
    """
    ### BEGIN SOLUTION
    d_k = d_model // num_heads
    one_head = 3 * d_model * d_k
    output = num_heads * d_k * d_model
    biases = 3 * num_heads * d_k + d_model if bias else 0
    return num_heads * one_head + output + biases
    ### END SOLUTION


# %% check multi_head_parameters
check(multi_head_parameters)

# %%
counts = {h: sum(p.numel() for p in nn.MultiheadAttention(256, h).parameters()) for h in (1, 2, 4, 8)}
for h, count in counts.items():
    print(f"torch's module with d_model = 256 and num_heads = {h}: {count:,} parameters")

# %% claims
claim("the number of heads drops out", set(counts.values()) == {reference.multi_head_parameters(256, 4, bias=True)})

# %% [markdown]
# The number of heads drops out: $h$ heads of $1/h$ of the size. (**Spot the mistake.** A text writes $d$ for
# $d_{\text{model}}$ and says "$3hd^{\,d/h} = 3d^2$". Try $d = 4$ and $h = 2$: left $6 \cdot 4^2 = 96$, right 48. An
# exponent has slipped in where a product belongs.)
#
# ### And how much work?
#
# If every head had full size, $h$ heads would cost $h$ times as much. Let us count multiplications for $n$ tokens: the
# projections need $3\, n\, d_{\text{model}} (h d_k)$, scores and weighted sum together $2 n^2 (h d_k)$, and $W^O$ needs
# $n\, (h d_k)\, d_{\text{model}}$. All of it depends on the product $h \cdot d_k$ alone. torch can count too; it counts
# a multiplication and an addition as two operations.

# %%
from torch.utils.flop_counter import FlopCounterMode


def multiplications(d_model: int, h: int, d_k: int, n: int) -> int:
    return 3 * n * d_model * h * d_k + 2 * n * n * h * d_k + n * h * d_k * d_model


def counted(d_model: int, h: int, d_k: int, n: int) -> int:
    x, w_in, w_out = torch.randn(1, n, d_model), torch.randn(3, d_model, h * d_k), torch.randn(h * d_k, d_model)
    with FlopCounterMode(display=False) as counter:
        q, k, v = (reference.split_heads(x @ w, h) for w in w_in)
        weights = (q @ k.transpose(-2, -1)).softmax(dim=-1)
        reference.merge_heads(weights @ v) @ w_out
    return counter.get_total_flops() // 2


print("d_model = 256, 64 tokens           by formula    by torch's counter")
work = {}
for name, h, d_k in (("1 head of 256", 1, 256), ("4 heads of 64", 4, 64), ("4 heads of 256", 4, 256)):
    work[name] = multiplications(256, h, d_k, 64), counted(256, h, d_k, 64)
    print(f"{name:<30} {work[name][0]:>14,} {work[name][1]:>18,}")

# %% claims
claim("formula and counter agree", all(formula == count for formula, count in work.values()))
claim("four small heads cost what one large head costs", work["4 heads of 64"] == work["1 head of 256"])
claim("four large heads cost four times as much", work["4 heads of 256"][0] == 4 * work["1 head of 256"][0])

# %% [markdown]
# Four small heads cost as much as one large head; four large ones cost four times as much. (What does grow with $h$ is
# the number of *maps*: $h$ maps of $n \times n$ have to be stored and put through a softmax.)
#
# The price is that each head works in fewer dimensions. The usual convention is **heads of size 64**, and
# $d_{\text{model}} / 64$ of them. So 512 has 8 heads, 768 has 12, 1024 has 16. It works, but it is not a law.
#
# ### What is $W^O$ for?
#
# The next layer expects one vector for each token, not $h$ of them. Side by side they have the right length, but then
# head $i$ writes into its own block of features only. $W^O$ lets every head write everywhere. Cut into $h$ blocks of
# rows, it becomes a sum. And since each head is its weights $A_i$ times $x W_i^V$, two matrices meet:
#
# $$\text{Concat}(\text{head}_1, \dots, \text{head}_h)\, W^O = \sum_i \text{head}_i\, W_i^O
# = \sum_i A_i\, x\, (W_i^V W_i^O)$$
#
# Two matrices in a row are one matrix. So do we need $W^O$ at all? Fold it into $W^V$ and see, with a
# {{term residual connection}} $x + \dots$ around it (the next notebook), since that is how it is used:

# %%
torch.manual_seed(0)
n, d_model, h, d_k = 5, 16, 4, 4
x = torch.randn(n, d_model, dtype=torch.float64)
attention = torch.randn(h, n, n, dtype=torch.float64).softmax(dim=-1)  # any weights will do
w_v = torch.randn(h, d_model, d_k, dtype=torch.float64)
w_o = torch.randn(h, d_k, d_model, dtype=torch.float64)  # head i owns its block of rows

heads = attention @ (x @ w_v)  # (head, n, d_k)
concatenated = torch.cat(list(heads), dim=-1) @ w_o.flatten(0, 1)
folded = (attention @ (x @ (w_v @ w_o))).sum(dim=0)  # each head with one matrix (d_model, d_model)
difference = ((x + concatenated) - (x + folded)).abs().max()
print(f"x + attention, with W_O and with W_O folded into W_V: differ by {difference:.0e}")
print(f"numbers in W_V and W_O: {w_v.numel() + w_o.numel()}, in the folded matrices: {(w_v @ w_o).numel()}")

# %% claims
claim("W_O folds into W_V", bool((concatenated - folded).abs().max() < 1e-10))
claim("the folded matrices are larger", (w_v @ w_o).numel() == h * d_model**2 == 2 * (w_v.numel() + w_o.numel()))

# %% figure Where head 1 writes
only_head_1 = torch.zeros(n, d_model, dtype=torch.float64)
only_head_1[:, 4:8] = heads[1]
fig, axes = plt.subplots(1, 2, figsize=(9, 2.4))
for ax, matrix, title in (
    (axes[0], only_head_1, "what head 1 writes without W_O"),
    (axes[1], heads[1] @ w_o[1], "and with W_O"),
):
    show_matrix(matrix, title, rows="token", columns="feature of the output", numbers=False, diverging=True, ax=ax)
    ax.set_xticks([0, 4, 8, 12])
plt.show()

# %% [markdown]
# Nothing is lost by folding, but the folded matrices are $d_{\text{model}} \times d_{\text{model}}$ for *each* head.
# $W_i^V W_i^O$ is the same map through a bottleneck of $d_k$ features: cheap, and it writes everywhere. That is what
# $W^O$ is for. Whether a trained model needs either of the two is another question: He and Hofmann (2024) fixed $W^V$
# and $W^O$ to the identity, in a block rebuilt to suit that, and it trained as well as the usual one. Nearly all models
# keep both, and so does yours.
#
# ## 4 · The module
#
# Seven steps. Before you run the next cell, write down the shape after each step, for 2 sequences of 5 tokens,
# $d_{\text{model}} = 12$ and $h = 3$:
#
# 1. the input $x$
# 2. `w_q(x)`, `w_k(x)`, `w_v(x)`
# 3. cut into heads, swap axes
# 4. scores, scaled; softmax over the keys
# 5. weights times values
# 6. swap axes back, merge
# 7. `w_o`

# %%
batch, n, d_model, h = 2, 5, 12, 3
x = torch.randn(batch, n, d_model)
w_q, w_k, w_v, w_o = (nn.Linear(d_model, d_model) for _ in range(4))
q, k, v = (reference.split_heads(w(x), h) for w in (w_q, w_k, w_v))
weights = (q @ k.transpose(-2, -1) / math.sqrt(d_model // h)).softmax(dim=-1)
merged = reference.merge_heads(weights @ v)
steps = {"1 x": x, "2 w_q(x)": w_q(x), "3 split": q, "4 weights": weights, "5 weights @ v": weights @ v}
for step, tensor in {**steps, "6 merge": merged, "7 w_o": w_o(merged)}.items():
    print(f"{step:<14} {tuple(tensor.shape)}")

# %% [markdown]
# In {{term cross-attention}} the lengths differ: with $n$ queries and $m$ keys the scores are (batch, h, n, m).
# Sequences of a batch never see each other: nothing is ever summed over the batch axis.
#
# ### Which square root?
#
# Step 4 divides by $\sqrt{d_k}$, the size of **one head**. A well-known listing keeps dividing by
# $\sqrt{d_{\text{model}}}$ after the split. With one head it makes no difference, so a quick test does not notice.
# Here are 64 tokens with queries and keys of variance 1 and $d_{\text{model}} = 256$. The
# {{term entropy}} says how evenly a query spreads its attention:

# %%
torch.manual_seed(0)
n, d_model = 64, 256
stds = {}
print(f"{'':>21}  score std   entropy of the weights (at most ln 64 = {math.log(64):.2f})")
for h in (1, 4, 8):
    d_k = d_model // h
    q, k = torch.randn(2, h, n, d_k), torch.randn(2, h, n, d_k)
    for name, size in (("√d_k", d_k), ("√d_model", d_model)):
        scores = q @ k.transpose(-2, -1) / math.sqrt(size)
        weights = scores.softmax(dim=-1)
        entropy = -(weights * weights.log()).sum(dim=-1).mean()
        stds[h, name] = scores.std().item(), entropy.item()
        print(f"h = {h}, divided by {name:<9} {scores.std():>7.2f} {entropy:>11.2f}")

# %% claims
claim("√d_k gives scores of size 1", all(abs(stds[h, "√d_k"][0] - 1) < 0.05 for h in (1, 4, 8)))
claim("√d_model gives 1/√h", all(abs(stds[h, "√d_model"][0] - h**-0.5) < 0.03 for h in (1, 4, 8)))
claim("the entropy is then close to its maximum", stds[8, "√d_model"][1] > math.log(64) - 0.1 > stds[8, "√d_k"][1])

# %% [markdown]
# With $\sqrt{d_{\text{model}}}$ the scores are too small by $\sqrt h$, and the heads start close to a plain average.
# Larger $W^Q$ and $W^K$ can make up for it, so such a model trains, and nobody notices. It is still not the formula.
#
# ### A mask for all heads
#
# The scores are (batch, head, query, key), but a {{term mask}} says nothing about heads: it is (batch, query, key), or
# just (query, key) if it is the same for every sequence. {{term broadcasting|Broadcasting}} lines shapes up
# **from the right**:
#
# ```
# scores  (batch, head, query, key)      (batch, head, query, key)      (batch, head,  query, key)
# mask    (batch,    1, query, key)                   (query, key)             (batch, query, key)
#                       ✓                              ✓                 ✗ batch meets head
# ```
#
# So a (batch, query, key) mask needs `unsqueeze(1)`, and a (query, key) mask must *not* get it. One often sees
# `unsqueeze(1)` for any mask. With a (query, key) mask the query axis then meets the heads. Usually that raises an
# error. When the sizes happen to agree, it does not:

# %%
torch.manual_seed(0)
n = 4
mask = causal_mask(n)
for h in (2, 4):
    scores = torch.randn(1, h, n, n)
    try:
        hidden = ~mask.unsqueeze(1)  # (4, 1, 4): an axis that does not belong there
        weights = scores.masked_fill(hidden, -math.inf).softmax(dim=-1)
        leak = weights[0, :, 0, 1:].max()
        print(f"{h} heads, {n} tokens: no error; token 0 gives up to {leak:.2f} of its attention to the future")
    except RuntimeError as error:
        print(f"{h} heads, {n} tokens: {error}")

# %% claims
claim("with as many heads as tokens the future leaks in silence", leak > 0.1)

# %% [markdown]
# Nothing has to be copied for the heads: broadcasting reads the same mask again for each of them.
#
# ### Heads folded into the batch
#
# Some code has no head axis. It treats every head as a sequence of its own, (batch · head, time, d_k), and uses
# `torch.bmm`, which knows one batch axis only. You will meet this version in many tutorials:


# %%
def folded_attention(q: Tensor, k: Tensor, v: Tensor, num_heads: int) -> Tensor:
    """Multi-head attention of projected q, k, v, each (batch, time, d_model), with the heads in the batch axis."""
    batch, n, d_model = q.shape
    d_k = d_model // num_heads

    def fold(x: Tensor) -> Tensor:
        x = x.view(batch, n, num_heads, d_k).transpose(1, 2)  # (batch, head, time, d_k), not contiguous
        return x.contiguous().view(batch * num_heads, n, d_k)

    q, k, v = fold(q), fold(k), fold(v)
    weights = (torch.bmm(q, k.transpose(1, 2)) / math.sqrt(d_k)).softmax(dim=-1)  # (batch · head, time, time)
    heads = torch.bmm(weights, v).view(batch, num_heads, n, d_k)
    return heads.transpose(1, 2).contiguous().view(batch, n, d_model)


torch.manual_seed(0)
q, k, v = (torch.randn(3, 5, 8) for _ in range(3))
with_axis = F.scaled_dot_product_attention(*(reference.split_heads(x, 2) for x in (q, k, v)))
same = torch.allclose(folded_attention(q, k, v, 2), reference.merge_heads(with_axis), atol=1e-6)
print("the same result as with a head axis:", same)

sample = torch.arange(3)  # three samples, two heads: whose mask does each row of the folded batch need?
print("rows of the folded batch belong to samples", sample[:, None].expand(3, 2).flatten().tolist())
print("mask.repeat(2, 1, 1) has the masks of     ", sample.repeat(2).tolist())
print("mask.repeat_interleave(2, dim=0)          ", sample.repeat_interleave(2).tolist())

# %% claims
claim("folding changes nothing", same)

# %% [markdown]
# Just as good, with one more trap: a mask now has to be repeated, and in the right order. `repeat` gives samples each
# other's masks.
#
# ### Spot the mistakes
#
# Before you write yours, here is one written in a hurry. It has four mistakes. Two raise at once, one waits for a
# certain input, and one never raises at all.
#
# ```python
# class HurriedAttention(nn.Module):
#     def __init__(self, heads, d_model):
#         super().__init__()
#         self.d_model, self.h, self.d_k = d_model, heads, d_model // heads
#         self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))
#
#     def attention(q, k, v, size, mask=None):
#         scores = q @ k.transpose(-2, -1) / math.sqrt(size)
#         if mask is not None:
#             scores = scores.masked_fill(mask.unsqueeze(1) == 0, -1e9)
#         return scores.softmax(dim=-1) @ v
#
#     def forward(self, q, k, v, mask=None):
#         q, k, v = (f(x).view(len(x), -1, self.h, self.d_k).transpose(1, 2)
#                    for f, x in ((self.q, q), (self.k, k), (self.v, v)))
#         heads = self.attention(q, k, v, self.d_model, mask)
#         return self.o(heads.transpose(1, 2).view(len(q), -1, self.d_model))
# ```
#
# <details><summary>The four mistakes</summary>
#
# 1. `attention` has no `self` (nor `@staticmethod`): called as `self.attention(…)` it gets one argument too many.
#    *Raises.*
# 2. `transpose(1, 2).view(…)` without `contiguous()`. *Raises.*
# 3. `mask.unsqueeze(1)` for every mask: a (query, key) mask *raises or is silently wrong*, depending on the sizes.
# 4. It scales by √d_model. *Never raises.*
#
# One thing is missing: nobody checks that `heads` divides `d_model`. With 8 features and 3 heads the error comes later,
# from `view`, and says only that a shape is invalid.
#
# </details>
#
# ### {{term dropout|Dropout}} on the weights
#
# In training a few weights are set to 0 at random, and the others are divided by $1 - p$. A token then cannot rely on
# a single look. It happens **after** the softmax, and never in evaluation. `nn.Dropout` knows by itself whether the
# model is training. (The paper also applies dropout to the *output*, before the residual connection. That is the
# layer's business, not attention's.)
#
# {{exercise MultiHeadAttention}}
#
# Now the whole module. You may use `reference.split_heads`, `reference.merge_heads` and `masked_softmax(scores, mask)`
# from the course, so that a slip above costs you nothing here.
#
# $$\text{MultiHead}(Q, K, V) = \text{Concat}(\text{head}_1, \dots, \text{head}_h)\, W^O$$


# %% exercise MultiHeadAttention
class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each with its own projections.

    Parameters: four maps from d_model to d_model features, each with its bias, such as nn.Linear(d_model, d_model)
    called w_q, w_k, w_v and w_o. Head i owns outputs i·d_k to (i+1)·d_k - 1 of w_q, w_k and w_v. (Other names and
    other packings, such as a list with one Linear for each head, are understood too.)
    """

    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0):
        super().__init__()
        ### BEGIN SOLUTION
        if d_model % num_heads:
            raise ValueError(f"d_model = {d_model} cannot be divided among {num_heads} heads.")
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)
        ### END SOLUTION

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """
        query: (batch, query, d_model); key, value: (batch, key, d_model).
        mask: (query, key) or (batch, query, key), boolean, True where attention is allowed; None allows everything.
        Returns: output (batch, query, d_model), weights (batch, head, query, key).
        Dropout is applied to the weights, in training only, and to nothing else.
        """
        ### BEGIN SOLUTION
        q = reference.split_heads(self.w_q(query), self.num_heads)  # (batch, head, query, d_k)
        k = reference.split_heads(self.w_k(key), self.num_heads)  # (batch, head, key, d_k)
        v = reference.split_heads(self.w_v(value), self.num_heads)  # (batch, head, key, d_k)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (batch, head, query, key)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = mask.unsqueeze(1) if mask.dim() == 3 else mask  # (batch, 1, query, key) or (query, key)
            weights = masked_softmax(scores, mask)
        weights = self.dropout(weights)
        return self.w_o(reference.merge_heads(weights @ v)), weights
        ### END SOLUTION


# %% check MultiHeadAttention
check(MultiHeadAttention)

# %% [markdown]
# Here is your module at work: four heads, a {{term causal}} mask, six random vectors, nothing trained yet.

# %% figure Four heads before any training
attention_class = yours("MultiHeadAttention", MultiHeadAttention)
torch.manual_seed(2)
x = 2 * torch.randn(1, 6, 16)  # a random vector for each word
with torch.no_grad():
    _, weights = attention_class(16, 4)(x, x, x, causal_mask(6))
fig, axes = plt.subplots(1, 4, figsize=(9.5, 2.9), sharey=True)
for i, ax in enumerate(axes):
    rows = {"rows": "query" if i == 0 else "", "row_names": words, "column_names": words}
    show_matrix(weights[0, i], f"head {i}", limits=(0, 1), ax=ax, numbers=False, **rows)
plt.show()

# %% [markdown]
# Four different maps of the same sentence, because the four slices of $W^Q$ and $W^K$ are different random numbers.
# The triangle is the same in all of them: one mask for all heads.
#
# You will meet versions with more options: sizes `d_k` and `d_v` that are chosen freely (then $W^Q$ is
# $d_{\text{model}} \times h \cdot d_k$), or hidden scores filled with $-10^9$ or $-10^4$ instead of $-\infty$ (the same
# result, unless a row hides everything: notebook 2).
#
# ## 5 · Against torch's own
#
# `nn.MultiheadAttention` does the same. Copy our weights into it, convert the mask (there True means *hidden*, as
# notebook 2 showed), and the two agree. It keeps the three input projections in one matrix: first all of $W^Q$, then
# $W^K$, then $W^V$.

# %%
torch.manual_seed(0)
ours = reference.MultiHeadAttention(16, 4).eval()
torchs = nn.MultiheadAttention(16, 4, batch_first=True).eval()
with torch.no_grad():
    torchs.in_proj_weight.copy_(torch.cat([ours.w_q.weight, ours.w_k.weight, ours.w_v.weight]))
    torchs.in_proj_bias.copy_(torch.cat([ours.w_q.bias, ours.w_k.bias, ours.w_v.bias]))
torchs.out_proj.load_state_dict(ours.w_o.state_dict())

x = torch.randn(2, 5, 16)
allowed = causal_mask(5)
output, weights = ours(x, x, x, allowed)
torch_output, torch_weights = torchs(x, x, x, attn_mask=~allowed, average_attn_weights=False)
difference = (output - torch_output).abs().max().item()
print(f"outputs differ by {difference:.0e}, weights by {(weights - torch_weights).abs().max():.0e}")

# %% claims
claim("ours and torch's agree", difference < 1e-5)

# %% [markdown]
# Three more traps surround it. Suppose someone puts it into a layer like this:
#
# ```python
# self.attention = nn.MultiheadAttention(hidden_size, num_heads)
# …
# attended = self.dropout(self.attention(x, x, x, mask))
# ```
#
# 1. **The result is a tuple.** `dropout` gets (output, weights) and raises.
# 2. **Without `batch_first=True` the first axis is time.** The output still has the right shape, but now the sequences
#    of the batch look at each other, and the positions of one sequence do not.
# 3. **The fourth positional argument is not the mask.** It is `key_padding_mask`, which says which *tokens* to ignore,
#    (batch, key). The mask over pairs is `attn_mask`, the sixth argument. Usually you get an error; if the batch
#    is as large as the sequence is long, you get wrong numbers.

# %%
torch.manual_seed(0)
time_first = nn.MultiheadAttention(16, 4)  # batch_first is missing
x = torch.randn(2, 4, 16, requires_grad=True)  # meant as 2 sequences of 4 tokens
try:
    nn.Dropout(0.1)(time_first(x, x, x))
except TypeError as error:
    print("trap 1:", error)

output, _ = time_first(x, x, x)
(slope,) = torch.autograd.grad(output[0, 0].sum(), x)
reached = (slope.abs().sum(dim=-1) > 0).int()  # (sequence, position)
print("trap 2: output [sequence 0, position 0] depends on", reached.tolist())

module = nn.MultiheadAttention(16, 4, batch_first=True).eval()
forbidden = ~causal_mask(4)
for batch in (2, 4):
    x = torch.randn(batch, 4, 16)
    right_output, _ = module(x, x, x, attn_mask=forbidden)
    try:
        wrong_output, _ = module(x, x, x, forbidden)
        wrong_by = (wrong_output - right_output).abs().max().item()
        print(f"trap 3, batch {batch}: no error, output wrong by {wrong_by:.2f}")
    except (AssertionError, RuntimeError) as error:
        print(f"trap 3, batch {batch}: {error}")

# %% claims
claim("without batch_first, position 0 depends on position 0 of both", reached.tolist() == [[1, 0, 0, 0]] * 2)
claim("the fourth argument is silently wrong in a square batch", batch == 4 and wrong_by > 0.01)

# %% [markdown]
# In trap 2 the output depends on position 0 of *both* sequences and on nothing else of its own. A gradient finds in one
# line what no shape shows. Pass masks by name (`attn_mask=`), set `batch_first=True`, unpack the tuple.
#
# ## 6 · Which initialisation is it?
#
# You meet this line in a multi-head attention with $d_{\text{model}} = 512$ and heads of 64:
#
# ```python
# nn.init.normal_(self.w_q.weight, std=math.sqrt(2 / (d_model + d_k)))   # "He initialisation"
# ```
#
# The comment is wrong, and the number is surprising. Work out the three candidates ($\text{fan}_{\text{in}}$ is the
# number of inputs):
#
# - He: $\sqrt{2 / \text{fan}_{\text{in}}} = \sqrt{2 / 512} = 0.0625$;
# - Glorot (Xavier), for the real $512 \times 512$ matrix: $\sqrt{2 / (512 + 512)} = 0.0442$;
# - Glorot, for the $512 \times 64$ slice of one head: $\sqrt{2 / (512 + 64)} = 0.0589$.
#
# It is the third. Does it matter? Measure the scores that each gives at the start, for inputs of variance 1:

# %%
torch.manual_seed(0)
d_model, h = 512, 8
x = torch.randn(4, 128, d_model)


def start_of(init) -> tuple[float, float]:
    """(std of the queries, std of the scores) with weights made by `init`."""
    w_q, w_k = nn.Linear(d_model, d_model, bias=False), nn.Linear(d_model, d_model, bias=False)
    for layer in (w_q, w_k):
        init(layer.weight)
    with torch.no_grad():
        q, k = reference.split_heads(w_q(x), h), reference.split_heads(w_k(x), h)
        return q.std().item(), (q @ k.transpose(-2, -1) / math.sqrt(d_model // h)).std().item()


inits = {
    "He, normal": lambda w: nn.init.normal_(w, std=math.sqrt(2 / 512)),
    "Glorot of one head's slice": lambda w: nn.init.normal_(w, std=math.sqrt(2 / (512 + 64))),
    "Glorot of the whole matrix": nn.init.xavier_normal_,
    "nn.MultiheadAttention's own": lambda w: nn.init.uniform_(w, -math.sqrt(6 / (4 * 512)), math.sqrt(6 / (4 * 512))),
    "nn.Linear's own": lambda w: nn.init.kaiming_uniform_(w, a=math.sqrt(5)),
}
starts = {name: start_of(init) for name, init in inits.items()}
print(f"{'':<30} std of q   std of the scores")
for name, (q_std, score_std) in starts.items():
    print(f"{name:<30} {q_std:>7.2f} {score_std:>16.2f}")

# %% claims
claim("Glorot of the whole matrix gives 1", abs(starts["Glorot of the whole matrix"][1] - 1) < 0.05)
claim("the slice gives 1.8", abs(starts["Glorot of one head's slice"][1] - 1.8) < 0.1)
claim("nn.Linear's own gives a third", abs(starts["nn.Linear's own"][1] - 1 / 3) < 0.03)
claim("torch's own attention starts softer too", starts["nn.MultiheadAttention's own"][1] < 0.6)

# %% [markdown]
# Glorot for the whole matrix gives 1, the slice formula 1.8: a sharper start than intended. torch's own choices start
# softer, closer to a plain average, and sharpen in training. Your module starts with `nn.Linear`'s own third, and in
# section 8 it trains from there. When a comment and a number disagree, measure.
#
# ## 7 · The same in einsum
#
# With heads, matrix products have many axes, and `transpose` and `reshape` hide which axis meets which. `einsum`
# names them. Give each axis a letter: **b** batch, **n** query position, **m** key position, **h** head, **e** feature
# of the model (an entry of the embedding), **d** feature of a head. A letter that is missing on the right is summed
# over.
#
# | what | einsum |
# |---|---|
# | queries of all heads | `"bne,ehd->bhnd"` |
# | scores: sum over d, keep b and h | `"bhnd,bhmd->bhnm"` |
#
# {{exercise multi_head_einsum}}
#
# Self-attention with given matrices, no biases, no mask. Here the matrices are used as $x W$ (not transposed, as
# `nn.Linear` stores them). Only the result counts: einsum is a suggestion, any way to the same numbers is fine.
#
# $$\text{output} = \sum_{i} \text{softmax}\!\left(\frac{x W_i^Q (x W_i^K)^\top}{\sqrt{d_k}}\right) x W_i^V\, W_i^O$$


# %% exercise multi_head_einsum
def multi_head_einsum(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int) -> Tensor:
    """Multi-head self-attention of x with given matrices.

    x: (batch, time, d_model); w_q, w_k, w_v, w_o: (d_model, d_model), used as x @ w.
    Head i owns columns i·d_k to (i+1)·d_k - 1 of w_q, w_k, w_v, and the same rows of w_o.
    Returns: (batch, time, d_model).
    """
    ### BEGIN SOLUTION
    d_model = x.shape[-1]
    d_k = d_model // num_heads
    w_q, w_k, w_v = (w.reshape(d_model, num_heads, d_k) for w in (w_q, w_k, w_v))  # (e, h, d)
    q, k, v = (torch.einsum("bne,ehd->bhnd", x, w) for w in (w_q, w_k, w_v))
    weights = (torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(d_k)).softmax(dim=-1)
    heads = torch.einsum("bhnm,bhmd->bhnd", weights, v)
    return torch.einsum("bhnd,hde->bne", heads, w_o.reshape(num_heads, d_k, d_model))
    ### END SOLUTION


# %% check multi_head_einsum
check(multi_head_einsum)

# %% [markdown]
# In our solution's last line the merge has disappeared: summing over `h` and `d` at once *is* "side by side, times
# $W^O$".

# %% figure The same matrices, cut into 1, 2 and 4 heads
torch.manual_seed(0)
x = torch.randn(1, 6, 8)
w_q, w_k, w_v, w_o = (torch.randn(8, 8) / math.sqrt(8) for _ in range(4))
fig, axes = plt.subplots(1, 3, figsize=(9, 2.9))
outputs = [reference.multi_head_einsum(x, w_q, w_k, w_v, w_o, h)[0] for h in (1, 2, 4)]
for ax, output, title in zip(axes, outputs, ("1 head", "2 heads", "4 heads")):
    limits = {"diverging": True, "limits": (-1.5, 1.5), "numbers": False}
    show_matrix(output, title, rows="token", columns="feature", ax=ax, **limits)
plt.show()

# %% claims
claim("three different functions", all((outputs[0] - output).abs().max() > 0.3 for output in outputs[1:]))

# %% [markdown]
# The same parameters, and yet three different functions: the number of heads is not just a matter of storage.
#
# ## 8 · What heads look at
#
# Now we let heads *learn* what to look at, in a task that needs two looks. Each of 8 tokens has a position, a letter,
# a name (each name occurs once) and a question: the name of some token. At each token the model should give **two**
# letters:
#
# 1. the letter of the token *before* it (the first one looks at the last): a look by **position**;
# 2. the letter of the token whose *name it asks for*: a look by **content**.
#
# The model is one attention, yours, and one linear layer that reads both answers off its output:

# %%
LENGTH, LETTERS = 8, 6


def make_batch(size: int, generator: torch.Generator) -> list[Tensor]:
    """Returns: inputs (batch, time, 30), letter before, letter asked for, and where that one stands (batch, time)."""
    position = torch.arange(LENGTH).expand(size, -1)
    letter = torch.randint(LETTERS, (size, LENGTH), generator=generator)
    name = torch.rand(size, LENGTH, generator=generator).argsort(dim=1)  # a shuffle of 0 … 7
    asks = torch.randint(LENGTH, (size, LENGTH), generator=generator)
    where = (name[:, None, :] == asks[:, :, None]).int().argmax(dim=-1)
    parts = ((position, LENGTH), (letter, LETTERS), (name, LENGTH), (asks, LENGTH))
    x = torch.cat([F.one_hot(values, count) for values, count in parts], dim=-1).float()
    return [tensor.to(device) for tensor in (x, letter.roll(1, dims=1), letter.gather(1, where), where)]


class TwoLetters(nn.Module):
    def __init__(self, attention: nn.Module, d_model: int = 32):
        super().__init__()
        self.embed = nn.Linear(3 * LENGTH + LETTERS, d_model)
        self.attention = attention
        self.read = nn.Linear(d_model, 2 * LETTERS)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.embed(x)
        output, weights = self.attention(x, x, x)
        return self.read(output).unflatten(-1, (2, LETTERS)), weights


# %% [markdown]
# We train it with one head and with two, each from two seeds.


# %%
def train(num_heads: int, seed: int = 0, attention_class=reference.MultiHeadAttention) -> TwoLetters:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = TwoLetters(attention_class(32, num_heads)).to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in bar(range(400), f"heads: {num_heads}, seed {seed}"):
        x, before, asked, _ = make_batch(64, generator)
        logits, _ = model(x)
        loss = F.cross_entropy(logits[:, :, 0].flatten(0, 1), before.flatten())
        loss = loss + F.cross_entropy(logits[:, :, 1].flatten(0, 1), asked.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.eval()


test_inputs, test_before, test_asked, test_where = make_batch(500, torch.Generator().manual_seed(99))


@torch.no_grad()
def accuracy(model: TwoLetters) -> tuple[float, float]:
    """The shares of right answers to the two questions."""
    guess = model(test_inputs)[0].argmax(dim=-1)
    return (guess[:, :, 0] == test_before).float().mean().item(), (guess[:, :, 1] == test_asked).float().mean().item()


models = {(h, seed): train(h, seed, attention_class) for h in (1, 2) for seed in (0, 1)}
accuracies = {key: accuracy(model) for key, model in models.items()}
for (h, seed), (first, second) in accuracies.items():
    print(f"heads: {h}, seed {seed}: letter before {first:.0%}, letter asked for {second:.0%}")
print(f"guessing: {1 / LETTERS:.0%}")

# %% claims
claim(
    "one head answers one question well and not the other",
    all(max(accuracies[1, s]) > 0.8 and min(accuracies[1, s]) < 0.7 for s in (0, 1)),
)
claim("two heads answer both", all(min(accuracies[2, seed]) > 0.95 for seed in (0, 1)))

# %% [markdown]
# The same number of parameters, the same steps. One head has to share its attention between two places, and it can no
# longer tell which letter came from where: it answers one question well and the other badly. Two heads answer both.
#
# What do the two heads look at? Here is one test sequence, for two runs that differ only in the seed. An orange-red
# frame marks the token *before*, a light-blue one the token that is *asked for*.


# %% figure Weights of the two heads, in two runs
def frame(ax, columns, colour: str, inset: float) -> None:
    side = 1 - 2 * inset
    for row, column in enumerate(columns):
        corner = (column - 0.5 + inset, row - 0.5 + inset)
        ax.add_patch(plt.Rectangle(corner, side, side, fill=False, edgecolor=colour, linewidth=1.6))


fig, axes = plt.subplots(1, 4, figsize=(9, 2.9), sharey=True)
shares = {}
for seed in (0, 1):
    with torch.no_grad():
        _, weights = models[2, seed](test_inputs)
    asked = weights.gather(3, test_where[:, None, :, None].expand(-1, 2, -1, -1)).mean(dim=(0, 2, 3))
    before = torch.stack([weights[:, :, i, i - 1] for i in range(LENGTH)]).mean(dim=(0, 1))
    shares[seed] = before.tolist(), asked.tolist()
    for head in (0, 1):
        ax = axes[2 * seed + head]
        rows = "query" if seed + head == 0 else ""
        show_matrix(weights[0, head], f"seed {seed}, head {head}", rows=rows, numbers=False, limits=(0, 1), ax=ax)
        frame(ax, [(i - 1) % LENGTH for i in range(LENGTH)], COLOURS[1], 0.05)
        frame(ax, test_where[0].tolist(), COLOURS[4], 0.16)
plt.show()

# %% claims
claim(
    "in each run one head looks before and the other at what is asked for",
    all(
        max(before) > 0.8 and max(asked) > 0.8 and before.index(max(before)) != asked.index(max(asked))
        for before, asked in shares.values()
    ),
)

# %% [markdown]
# In each run one head looks at the token before and the other at the token that is asked for. **Which** head does what
# depends on the seed alone: nobody told them. So be careful with sentences like "head 3 does syntax". They are about
# one trained model, not about the architecture; and this task was made so that two clean roles exist.
#
# ### Heads of a real translator
#
# Here are the heads of the translator from notebook 0. Nobody gave them roles. Its {{term encoder}} reads the
# sentence with self-attention; its {{term decoder}} looks at the encoder's output with cross-attention while it writes
# French (a row *le → chat* has read *le* and writes *chat*). Look at each head by itself, then explore all layers.
# Layers and heads are numbered from 1 here.

# %% figure The heads of the translator, one by one
from course_lib.interactive import attention_explorer, translation_attention
from course_lib.translation import load_translator

maps = translation_attention(load_translator().to(device), "the cat is on the mat")
encoder_map, _, cross_map = maps
fig, axes = plt.subplots(2, 4, figsize=(9.5, 6))
for row, each, layer in ((axes[0], encoder_map, 1), (axes[1], cross_map, 0)):
    for head, ax in enumerate(row):
        title = f"{each.kind}\nlayer {layer + 1}, head {head + 1}"
        names = {"row_names": each.queries if head == 0 else [""] * 7, "column_names": each.keys}
        show_matrix(
            each.weights[layer, head],
            title,
            rows="query" if head == 0 else "",
            limits=(0, 1),
            ax=ax,
            numbers=False,
            **names,
        )
plt.show()

# %% figure Explore every layer and head
attention_explorer(maps)

# %% claims
the_to_noun = torch.stack([encoder_map.weights[1, :, 0, 1], encoder_map.weights[1, :, 4, 5]])
claim("in layer 2 all four heads of both 'the' look at their noun", bool((the_to_noun > 0.9).all()))
claim(
    "two heads of the cross-attention align word by word",
    bool((cross_map.weights[0, 2:].diagonal(dim1=1, dim2=2) > 0.9).all()),
)
claim("the other two do not", bool((cross_map.weights[0, :2].argmax(dim=-1) != torch.arange(7)).any(dim=-1).all()))
claim("heads 1 and 2 send 'le' to the noun", bool((cross_map.weights[0, :2, [0, 4], [1, 5]] > 0.9).all()))
entropies = -(encoder_map.weights * encoder_map.weights.clamp_min(1e-9).log()).sum(dim=-1).mean(dim=-1)
claim(
    "the heads of the first encoder layer look at many words",
    bool((entropies[0] > 1).all() and (entropies[1] < 0.7).all()),
)

# %% [markdown]
# In the encoder's second layer, every head sends both *the* to their nouns: French needs the noun's gender to choose
# between *le* and *la*. In the first layer the heads spread over many words, and no role can be read off. In the
# decoder's first cross-attention, heads 3 and 4 align the sentences word by word; heads 1 and 2 send *le* straight to
# the noun. A mean over heads would have hidden this. Some heads can be read, many cannot.
#
# ### More heads are not always better
#
# Does each head matter? Switch one off (let $W^O$ ignore it) and measure again: on the two-letter task, with two heads
# and with four.


# %% figure Accuracy with one head switched off
@torch.no_grad()
def accuracy_without(model: TwoLetters, head: int) -> tuple[float, float]:
    """The accuracies if W_O ignores one head."""
    w_o = model.attention.w_o.weight
    kept = w_o.clone()
    d_k = w_o.shape[1] // model.attention.num_heads
    w_o[:, head * d_k : (head + 1) * d_k] = 0
    result = accuracy(model)
    w_o.copy_(kept)
    return result


without = {}
for h in (2, 4):
    model = train(h, seed=1)  # the course's own module: its W_O has a known name
    without[h] = torch.tensor([accuracy(model), *[accuracy_without(model, head) for head in range(h)]])

fig, axes = plt.subplots(1, 2, figsize=(9, 3), sharey=True, width_ratios=[3, 5])
for ax, (h, results) in zip(axes, without.items()):
    places = torch.arange(h + 1)
    ax.bar(places - 0.2, results[:, 0], 0.38, label="letter before", color=COLOURS[1])
    ax.bar(places + 0.2, results[:, 1], 0.38, label="letter asked for", color=COLOURS[4])
    ax.axhline(1 / LETTERS, color="black", linestyle=":", linewidth=1, label="guessing")
    ax.set_xticks(places, ["none", *map(str, range(h))])
    ax.set(title=f"{h} heads", xlabel="head switched off", ylim=(0, 1.05))
axes[0].set_ylabel("accuracy")
axes[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
plt.show()

# %% claims
lost = {h: results[0] - results[1:] for h, results in without.items()}  # (head, question)
claim(
    "with two heads, each carries one answer",
    bool((lost[2].max(dim=1).values > 0.4).all() and (lost[2].min(dim=1).values < 0.25).all()),
)
claim("with four heads, most can go one at a time", int((lost[4].max(dim=1).values < 0.1).sum()) >= 2)

# %% [markdown]
# With two heads, each carries one of the two answers. With four heads for two looks, most of them can be switched off,
# one at a time, at almost no cost. The same is true of large translators: many of their heads can be removed after
# training at little loss (Michel et al. 2019; Voita et al. 2019).
#
# {{question one_head_or_eight}}
#
# $d_{\text{model}}$ stays the same, and instead of 1 head you take 8. What does it cost in parameters and in
# multiplications? What can the layer do now that it could not do before, and what does each head have less of?

# %% answer one_head_or_eight 2 [markdown]
# ### BEGIN SOLUTION
# Parameters and multiplications stay the same, because each of the 8 heads works with d_model / 8 features, and 8 ·
# d_model · (d_model / 8) = d_model². (There are 8 maps of weights to store instead of 1.) The layer has 8 softmaxes,
# so a token can look at several places at once with full strength, and their results stay apart, side by side,
# instead of being averaged. Each head has fewer features for its queries, keys and values: a coarser measure of
# similarity, and less room for what it carries over.
#
# **Rubric**
#
# - 1 point: parameters and multiplications stay the same, with the reason (each head has an eighth of the features)
# - 1 point: several patterns at once that are not averaged, and fewer features for each head; half a point for one of
#   the two
# ### END SOLUTION

# %% [markdown]
# ## 9 · One step further: grouped queries
#
# A model that writes text token by token keeps the keys and values of all earlier tokens: the KV
# {{term cache}}. For each token, in each layer, that is $2 \cdot h \cdot d_k$ numbers. Queries are not kept. So let
# several query heads **share** one head of keys and values: $h$ query heads, but only $g$ groups of keys and values.
# With $g = h$ this is the attention you built; with $g = 1$ it is called *multi-query* attention (Shazeer 2019); in
# between, *{{term grouped-query attention}}* (Ainslie et al. 2023).
#
# $$\text{query head } i \text{ reads group } \left\lfloor \frac{i}{h / g} \right\rfloor$$
#
# With 4 heads and 2 groups, heads 0 and 1 read group 0, heads 2 and 3 read group 1: neighbours share. (You have seen
# above which of `repeat` and `repeat_interleave` keeps neighbours together.)
#
# {{exercise grouped_query_attention}}


# %% exercise grouped_query_attention
def grouped_query_attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Attention in which several query heads share one head of keys and values.

    q: (batch, head, query, d_k); k: (batch, group, key, d_k); v: (batch, group, key, d_v); group divides head.
    Query head i reads group i // (head / group).
    Returns: output (batch, head, query, d_v), weights (batch, head, query, key).
    """
    ### BEGIN SOLUTION
    sharing = q.shape[1] // k.shape[1]  # query heads in one group
    k = k.repeat_interleave(sharing, dim=1)  # (batch, head, key, d_k)
    v = v.repeat_interleave(sharing, dim=1)  # (batch, head, key, d_v)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (batch, head, query, key)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights
    ### END SOLUTION


# %% check grouped_query_attention
check(grouped_query_attention)

# %% figure The KV cache of a model of 7 billion parameters
layers, d_k, bytes_each = 32, 128, 2  # 32 query heads of 128, numbers of 2 bytes
weights_bytes = 7e9 * bytes_each
lengths = torch.tensor([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000])
fig, ax = plt.subplots(figsize=(7, 3.4))
bytes_per_token = {}
for (groups, name), style in zip(
    ((32, "32 groups: multi-head"), (8, "8 groups: grouped"), (1, "1 group: multi-query")), "os^"
):
    bytes_per_token[groups] = 2 * layers * groups * d_k * bytes_each
    ax.plot(lengths, bytes_per_token[groups] * lengths / 2**30, style + "-", label=name)
    as_large = weights_bytes / bytes_per_token[groups]
    size = f"{bytes_per_token[groups] // 1024:>4} KiB per token"
    print(f"{name:<22} {size}, as large as the weights at {as_large:>9,.0f} tokens")
ax.axhline(weights_bytes / 2**30, color="black", linestyle=":", linewidth=1, label="the weights themselves")
ax.set(title="the KV cache of a model of 7 billion parameters", xlabel="tokens in the cache", ylabel="GiB")
ax.set(xscale="log", yscale="log")
ax.set_xticks([1e3, 1e4], ["1,000", "10,000"])
ax.legend(fontsize=8)
plt.show()

# %% claims
as_large = weights_bytes / bytes_per_token[32]
claim("the cache is as large as the weights at about 27,000 tokens", abs(as_large - 27_000) < 500)
claim("a quarter of the groups, a quarter of the cache", bytes_per_token[8] * 4 == bytes_per_token[32])

# %% [markdown]
# At about 27,000 tokens the full cache is as large as the weights themselves. That is one long document, or 27 users
# with 1,000 tokens each. A quarter of the groups makes a quarter of the cache, and there are still 32 different
# softmaxes.
#
# ## What you can do now
#
# - say why one softmax cannot look at two places with full strength, and show it with two sentences;
# - split and merge heads, and recognise a split that mixes tokens although every shape is right;
# - tell `view`, `reshape` and `contiguous` apart;
# - count parameters and multiplications, say why the number of heads drops out, and what $W^O$ is for;
# - write multi-head attention for self- and cross-attention, with masks and dropout, as a module and as einsum;
# - use `nn.MultiheadAttention` without falling into its traps;
# - read pictures of heads with the right amount of doubt;
# - shrink the KV cache with grouped queries.
#
# **Next** comes what surrounds attention in a layer: the residual connection, the norm, the feed-forward network.
#
# **To read**
#
# - Vaswani et al. (2017), *Attention is all you need*, section 3.2.2: the formula of this notebook.
# - Bloem (2019), *Transformers from scratch*, and Alammar (2018), *The illustrated Transformer*: heads in pictures.
# - Michel, Levy, Neubig (2019), *Are sixteen heads really better than one?*
# - Voita et al. (2019), *Analyzing multi-head self-attention: specialized heads do the heavy lifting, the rest can be
#   pruned.*
# - He, Hofmann (2024), *Simplifying Transformer blocks*: what can be left out.
# - Shazeer (2019), *Fast transformer decoding: one write-head is all you need*; Ainslie et al. (2023), *GQA*.
