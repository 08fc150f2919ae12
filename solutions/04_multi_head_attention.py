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
# One attention shares out one unit of attention. A word often needs several looks at once: who did it, what was it,
# for whom? **Multi-head attention** runs several small attentions side by side and mixes their results. You will
# build it step by step, compare it with torch's own to the last digit, train it for two seconds and watch its heads
# divide the work. About 90 minutes.

# %% setup
import math

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib import check, hint, solution
from course_lib import multi_head_attention as reference
from course_lib.masks import causal_mask, masked_softmax
from course_lib.plotting import COLOURS, show_matrix, use_course_style

use_course_style()
torch.set_num_threads(1)  # the tensors here are small: more threads would only wait for each other

# %% [markdown]
# ## 1 · Why one attention is not enough
#
# Take the sentence **mary gave roses to susan** and look at the word *gave*. It stands in three different relations:
# *mary* is who gave, *roses* is what was given, *susan* is who got them. A good new vector for *gave* would hold all
# three, and keep apart who is who.
#
# Let us give one attention the best weights that we can think of for this: half on the giver, half on the receiver.
# To make it easy to read, mary's value is (1, 0) and susan's is (0, 1).

# %%
values = {"mary": [1.0, 0.0], "gave": [0.0, 0.0], "roses": [0.0, 0.0], "to": [0.0, 0.0], "susan": [0.0, 1.0]}
one_softmax = torch.tensor([0.5, 0.0, 0.0, 0.0, 0.5])  # what "gave" looks at: the giver and the receiver

for sentence in ("mary gave roses to susan", "susan gave roses to mary"):
    v = torch.tensor([values[word] for word in sentence.split()])  # (5, 2)
    print(f"{sentence}:  new vector of 'gave' = {(one_softmax @ v).tolist()}")

# %% [markdown]
# Two different stories, one and the same vector. The weighted sum has *mixed* giver and receiver. Other weights do
# not help much: they are positive and sum to 1, so what one place gets is taken from the other. With weights (0.7,
# 0.3) one can guess who gave, but the receiver is now a whisper.
#
# The cure is simple. Let two attentions look independently, and put their results **side by side** instead of adding
# them up.

# %%
looks_at_giver = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0])
looks_at_receiver = torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0])

for sentence in ("mary gave roses to susan", "susan gave roses to mary"):
    v = torch.tensor([values[word] for word in sentence.split()])
    both = torch.cat([looks_at_giver @ v, looks_at_receiver @ v])
    print(f"{sentence}:  new vector of 'gave' = {both.tolist()}")

# %%
words = "mary gave roses to susan".split()
fig, axes = plt.subplots(1, 2, figsize=(8.5, 2.4), width_ratios=[1, 1])
show_matrix(
    one_softmax[None],
    "one head",
    row_names=["the head"],
    column_names=words,
    rows="",
    columns="key",
    limits=(0, 1),
    ax=axes[0],
)
three = torch.stack([looks_at_giver, torch.eye(5)[2], looks_at_receiver])
show_matrix(
    three,
    "three heads",
    row_names=["who?", "what?", "to whom?"],
    column_names=words,
    rows="",
    columns="key",
    limits=(0, 1),
    ax=axes[1],
)
fig.suptitle("what the query 'gave' looks at", fontsize="medium")
plt.show()

# %% [markdown]
# Each of these attentions is called a **head**. (How a head finds out *which* word is the giver is another question:
# from the words themselves and from their positions. Here we set the weights by hand; at the end of this notebook
# they are learned.)
#
# So heads buy two things:
#
# - **several places at once**: each head has its own softmax, so a strong look at one word takes nothing from
#   another;
# - **several kinds of likeness**: each head has its own projections. What counts as "fitting" in one head (grammar,
#   say) need not be what counts in another.
#
# ### The formula
#
# Head $i$ has three matrices of its own. They bring the inputs down from $d_{\text{model}}$ features to a smaller
# number $d_k$:
#
# $$\text{head}_i = \text{Attention}(Q W_i^Q,\; K W_i^K,\; V W_i^V), \qquad d_k = d_{\text{model}} / h$$
#
# $$\text{MultiHead}(Q, K, V) = \text{Concat}(\text{head}_1, \dots, \text{head}_h)\, W^O$$
#
# > **A trap in the notation.** In many texts $Q$ already means $XW^Q$, and then head $i$ uses $QW_i^Q$: projected
# > twice. In this formula $Q$, $K$, $V$ are the **raw inputs**. In self-attention all three are the same $X$. There
# > is one projection for each, not two.
#
# With the numbers of the first Transformer: $d_{\text{model}} = 512$ and $h = 8$, so each head works with $d_k = 64$
# features.
#
# | | shape | with $T = 10$ tokens |
# |---|---|---|
# | $Q$, $K$, $V$ (the inputs) | $T \times d_{\text{model}}$ | 10 × 512 |
# | $W_i^Q$, $W_i^K$, $W_i^V$ | $d_{\text{model}} \times d_k$ | 512 × 64 |
# | $\text{head}_i$ | $T \times d_k$ | 10 × 64 |
# | all heads side by side | $T \times (h \cdot d_k)$ | 10 × 512 |
# | $W^O$ | $(h \cdot d_k) \times d_{\text{model}}$ | 512 × 512 |
# | the result | $T \times d_{\text{model}}$ | 10 × 512 |
#
# The whole way, in five steps:


# %% figure
def box(ax, x, y, width, height, colour, text="", size=8):
    ax.add_patch(plt.Rectangle((x, y), width, height, facecolor=colour, edgecolor="black", linewidth=0.7, alpha=0.85))
    if text:
        ax.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=size)


def draw_pipeline():
    fig, ax = plt.subplots(figsize=(9, 4.6))
    rows = [3.3, 2.2, 1.1, 0.0]  # one line for each of 4 heads
    titles = ["1  sentence", "2  embed: X", "3  project, per head", "4  attend", "5  concat, times W_O"]
    for x, title in zip((0.45, 2.0, 3.95, 6.0, 8.25), titles):
        ax.text(x, 4.75, title, ha="center", fontsize=9, fontweight="bold")
    for i, word in enumerate(words):
        y = 3.2 - 0.62 * i
        ax.text(0.45, y + 0.17, word, ha="center", va="center", fontsize=9)
        box(ax, 1.45, y, 1.1, 0.34, "#CCCCCC", "256", 7)
        ax.annotate("", (1.4, y + 0.17), (0.9, y + 0.17), arrowprops={"arrowstyle": "->", "lw": 0.8})
    for i, y in enumerate(rows):
        colour = COLOURS[i]
        ax.annotate("", (3.2, y + 0.35), (2.65, 2.1), arrowprops={"arrowstyle": "->", "lw": 0.8, "color": colour})
        for j, name in enumerate("QKV"):
            box(ax, 3.3 + 0.47 * j, y, 0.4, 0.75, colour + "66", f"${name}_{i + 1}$\n64", 8)
        ax.annotate("", (5.45, y + 0.37), (4.75, y + 0.37), arrowprops={"arrowstyle": "->", "lw": 0.8, "color": colour})
        box(ax, 5.5, y, 1.0, 0.75, colour + "66", f"head {i + 1}\n5 × 64", 8)
        ax.annotate(
            "", (7.25, 2.95 - 0.55 * i), (6.55, y + 0.37), arrowprops={"arrowstyle": "->", "lw": 0.8, "color": colour}
        )
        box(ax, 7.3, 2.7 - 0.55 * i, 0.55, 0.55, colour + "66", f"{i + 1}", 8)
    ax.text(7.575, 0.6, "5 × 256", ha="center", fontsize=8)
    ax.text(8.1, 1.95, "×", ha="center", va="center", fontsize=12)
    box(ax, 8.3, 1.4, 0.75, 1.1, "#CCCCCC", "$W^O$\n256 × 256", 7)
    ax.annotate("", (9.5, 1.95), (9.1, 1.95), arrowprops={"arrowstyle": "->", "lw": 0.8})
    ax.text(9.55, 1.95, "output\n5 × 256", va="center", fontsize=8)
    ax.set(xlim=(-0.1, 10.3), ylim=(-0.2, 5.1), title="multi-head attention with d_model = 256 and 4 heads of d_k = 64")
    ax.axis("off")
    plt.show()


draw_pipeline()

# %% [markdown]
# Only the first layer embeds words. Every later layer begins with the output of the layer below.
#
# ## 2 · Split and merge
#
# Nobody loops over heads. The projected queries of *all* heads are one tensor (batch, time, d_model), in which the
# first $d_k$ features belong to head 0, the next $d_k$ to head 1, and so on. We make the heads an axis of their own,
# (batch, **head**, time, d_k), and then one matrix product attends in all heads at once.
#
# The shape is easy to get. So easy that the wrong way is tempting: ask `view` for the shape that is wanted, in one
# go. Here are 4 tokens with 6 features each; the tens digit says which token a number comes from.

# %%
x = (10 * torch.arange(4)[:, None] + torch.arange(6)).float()[None]  # (1, 4, 6)
wrong = x.view(1, 2, 4, 3)  # (batch, head, time, d_k)? The shape says so.
right = reference.split_heads(x, 2)

fig, axes = plt.subplots(2, 3, figsize=(8.5, 5))
for ax, heads, word in ((axes[0], wrong, "view alone"), (axes[1], right, "split right")):
    show_matrix(x[0], "x: token t holds t0 to t5", rows="time", columns="feature", limits=(0, 35), ax=ax[0])
    for i in (0, 1):
        show_matrix(
            heads[0, i],
            f"{word}: head {i}" if i == 0 else "head 1",
            rows="time",
            columns="feature of the head",
            limits=(0, 35),
            ax=ax[1 + i],
        )
plt.show()

# %% [markdown]
# Look at the upper row. "Time step 1" of head 0 holds 3, 4, 5: the second half of token **0**. Head 0 sees nothing of
# tokens 2 and 3, and head 1 nothing of tokens 0 and 1. `view` never moves a number: it reads memory in the old order,
# and cuts it in new places.
#
# The shape is right, nothing raises, and a model with this mistake even trains (badly). What gives it away is a
# property: attention without positions must not care about the order of the tokens. Swap two tokens, and the outputs
# of those two should be swapped, nothing else.

# %%
torch.manual_seed(0)
tokens = torch.randn(1, 4, 6)
order = torch.tensor([0, 2, 1, 3])  # tokens 1 and 2 change places


def attend(x: Tensor, split) -> Tensor:
    """Self-attention without projections, in two heads that are cut by `split`, and put back by its inverse."""
    q = split(x)
    heads = F.scaled_dot_product_attention(q, q, q)
    return reference.merge_heads(heads) if split is good else heads.reshape(x.shape)


def good(x: Tensor) -> Tensor:
    return reference.split_heads(x, 2)


def bad(x: Tensor) -> Tensor:
    return x.view(1, 2, 4, 3)


for split in (good, bad):
    difference = (attend(tokens[:, order], split) - attend(tokens, split)[:, order]).abs().max()
    print(
        f"{split.__name__:>5} split: swap, then attend, against attend, then swap: largest difference {difference:.4f}"
    )

# %% [markdown]
# The good split is **permutation equivariant**, the bad one is not.
#
# ### Your turn
#
# Cut each token's features into blocks (that moves nothing), and then exchange the time axis and the head axis (that
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
# If a check fails and you are stuck, `hint("split_heads")` gives a first nudge; call it again for the next one. After
# a real attempt `solution("split_heads")` shows ours.
#
# ### What `transpose` does to memory: view, reshape, contiguous
#
# On the way back there is a famous error message. A tensor is a row of numbers in memory and a rule how to walk over
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

# %% [markdown]
# - `view` never copies. If the new shape cannot be walked over without a copy, it refuses.
# - `reshape` copies if it must, and only then.
# - `contiguous()` makes the copy by name. Some people prefer `contiguous().view(…)`: then one can see in the code
#   where memory is moved.
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

# %%
heads = reference.split_heads(x, 2)  # x from above: token t holds t0 to t5
back_wrong = heads.reshape(1, 4, 6)  # without the exchange of axes
back_right = reference.merge_heads(heads)
fig, axes = plt.subplots(1, 3, figsize=(9, 2.8))
for ax, matrix, title in zip(
    axes, (x, back_wrong, back_right), ("x", "split, then reshape alone", "split, then merge")
):
    show_matrix(matrix[0], title, rows="time", columns="feature", limits=(0, 35), ax=ax)
plt.show()

# %% [markdown]
# In the middle, "time step 0" consists of the beginnings of tokens 0 and 1. Every row should be one token.
#
# ## 3 · The matrices
#
# ### One large matrix, or one for each head?
#
# The formula has separate matrices $W_i^Q$. The code has one large $W^Q$ and splits its *result*. Is that the same?
# Take slices of the large matrix as the heads' matrices, and compare.

# %%
torch.manual_seed(0)
d_model, num_heads = 8, 2
d_k = d_model // num_heads
x = torch.randn(1, 5, d_model, dtype=torch.float64)
w_q = torch.randn(d_model, d_model, dtype=torch.float64)

from_large = reference.split_heads(x @ w_q, num_heads)  # project, then split
from_slices = torch.stack([x @ w_q[:, i * d_k : (i + 1) * d_k] for i in range(num_heads)], dim=1)
print("largest difference:", (from_large - from_slices).abs().max().item())

# %% [markdown]
# The same numbers. The large matrix is not *shared* between the heads, as one sometimes reads: it is **sliced**. No
# two heads have a weight in common.
#
# ### Does the split cut up the input space?
#
# One also reads that multi-head attention divides the input features among the heads, so that head 0 sees the first
# block of $x$. Let us ask the gradient: which input features does each head's query depend on?

# %%
torch.manual_seed(0)
x = torch.randn(1, 1, 16, requires_grad=True)
w_q = nn.Linear(16, 16)
depends = []
for i in range(4):
    (slope,) = torch.autograd.grad(reference.split_heads(w_q(x), 4)[0, i].sum(), x)
    depends.append(slope[0, 0].abs())
    print(f"the query of head {i} depends on {int((slope != 0).sum())} of 16 input features")

# %%
fig, axes = plt.subplots(1, 2, figsize=(9, 2.5))
block = torch.zeros(4, 16)
for i in range(4):
    block[i, 4 * i : 4 * i + 4] = 1
show_matrix(block, "if heads cut up the input", rows="head", columns="input feature", numbers=False, ax=axes[0])
show_matrix(
    torch.stack(depends),
    "what really happens: |gradient|",
    rows="head",
    columns="input feature",
    numbers=False,
    limits=(0, 1),
    ax=axes[1],
)
for ax in axes:
    ax.set_xticks([0, 4, 8, 12])
plt.show()

# %% [markdown]
# Every head reads **all** input features, through its own slice of $W^Q$. What is divided is the *projected* space:
# head 0 owns the first 4 features of $xW^Q$. Project first, split afterwards.
#
# ### How many parameters?
#
# One head with everything: three matrices $k \times k$ (writing $k$ for $d_{\text{model}}$), so $3k^2$. And with $h$
# heads? Each head has three matrices $k \times k/h$:
#
# $$3 \cdot h \cdot k \cdot \tfrac{k}{h} = 3k^2$$
#
# The number of heads falls out. With $k = 256$ and $h = 4$ that is $3 \cdot 4 \cdot 256 \cdot 64 = 196\,608$, exactly
# what one head of full size has. (Spot the mistake: a text says "$3hk^{k/h} = 3k^2$". With $k = 4$, $h = 2$ the left
# side is $6 \cdot 4^2 = 96$ and the right side 48. An exponent has slipped in where a product belongs.)
#
# On top of it comes $W^O$ with another $k^2$, and if the maps have biases, one number for each output of each of the
# four maps.
#
# $$4k^2 \quad\text{or, with biases,}\quad 4k^2 + 4k$$
#
# {{exercise multi_head_parameters}}
#
# Count from the heads: what does one head have, how often, and what comes on top?


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
for heads in (1, 2, 4, 8):
    count = sum(p.numel() for p in nn.MultiheadAttention(256, heads).parameters())
    print(f"torch's module with d_model = 256 and num_heads = {heads}: {count:,} parameters")
biases_everywhere = 4 * 256**2 + 4 * 256
bias_in_w_o_alone = 4 * 256**2 + 256
print(f"by the formula: {biases_everywhere:,}; with a bias in W_O alone, as some code has it: {bias_in_w_o_alone:,}")

# %% [markdown]
# ### And how much work?
#
# If every head had the full size $k$, then $h$ heads would cost $h$ times as much. That is why each gets $k/h$. Let
# us count multiplications for $T$ tokens: the projections need $3 T k \cdot (h \cdot d_k)$, scores and weighted sum
# together $2 T^2 (h \cdot d_k)$, and $W^O$ needs $T (h \cdot d_k) k$. All of it depends on $h \cdot d_k$ alone. torch
# can count too; it counts a multiplication and an addition as two operations.

# %%
from torch.utils.flop_counter import FlopCounterMode


def multiplications(k: int, h: int, d_k: int, T: int) -> int:
    return 3 * T * k * h * d_k + 2 * T * T * h * d_k + T * h * d_k * k


def counted(k: int, h: int, d_k: int, T: int) -> int:
    x, w_in, w_out = torch.randn(1, T, k), torch.randn(3, k, h * d_k), torch.randn(h * d_k, k)
    with FlopCounterMode(display=False) as counter:
        q, key, v = (reference.split_heads(x @ w, h) for w in w_in)
        weights = (q @ key.transpose(-2, -1)).softmax(dim=-1)
        reference.merge_heads(weights @ v) @ w_out
    return counter.get_total_flops() // 2


print("d_model = 256, 64 tokens           by formula    by torch's counter")
for name, h, d_k in (("1 head of 256", 1, 256), ("4 heads of 64", 4, 64), ("4 heads of 256 (naive)", 4, 256)):
    print(f"{name:<30} {multiplications(256, h, d_k, 64):>14,} {counted(256, h, d_k, 64):>18,}")

# %% [markdown]
# Four small heads cost what one large head costs; four large ones four times as much. (What does grow with $h$ is the
# number of *maps*: $h$ maps of $T \times T$ have to be stored and put through a softmax.)
#
# The price is that each head works in fewer dimensions. A custom has settled: **heads of size 64**, and
# $d_{\text{model}} / 64$ of them. So 512 has 8 heads, 768 has 12, 1024 has 16. It is a habit that works, not a law.
#
# ### What is $W^O$ for?
#
# The layer that follows expects one vector for each token, not $h$ of them. Side by side they have the right length,
# but head $i$ has then written into its own block of features only. $W^O$ lets every head write everywhere. Cut into
# $h$ blocks of rows, it becomes a sum:
#
# $$\text{Concat}(\text{head}_1, \dots, \text{head}_h)\, W^O = \sum_i \text{head}_i\, W_i^O$$

# %%
torch.manual_seed(0)
heads = torch.randn(1, 4, 5, 4)  # (batch, head, time, d_k)
w_o = torch.randn(16, 16)
side_by_side = reference.merge_heads(heads) @ w_o
summed = sum(heads[:, i] @ w_o[4 * i : 4 * i + 4] for i in range(4))
print("largest difference:", f"{(side_by_side - summed).abs().max():.1e}")

only_head_1 = torch.zeros_like(heads)
only_head_1[:, 1] = heads[:, 1]
fig, axes = plt.subplots(1, 2, figsize=(9, 2.4))
for ax, matrix, title in (
    (axes[0], reference.merge_heads(only_head_1), "what head 1 writes without W_O"),
    (axes[1], reference.merge_heads(only_head_1) @ w_o, "and with W_O"),
):
    show_matrix(matrix[0], title, rows="token", columns="feature of the output", numbers=False, diverging=True, ax=ax)
    ax.set_xticks([0, 4, 8, 12])
plt.show()

# %% [markdown]
# Is it necessary? If nothing but another linear map followed, no: two matrices in a row are one matrix, and $W^O$
# could be absorbed. But in a Transformer the input is *added* to the output (the residual connection, in a later
# notebook), and $x + \text{concat}\,W^O$ goes on. Whoever wants to leave $W^O$ out would have to undo it on $x$ too.

# %%
torch.manual_seed(0)
x, concat, w_o, w_next = torch.randn(5, 16), torch.randn(5, 16), torch.randn(16, 16), torch.randn(16, 16)
absorbed = w_o @ w_next
print("no residual:   absorbed W_O differs by", f"{(concat @ w_o @ w_next - concat @ absorbed).abs().max():.1e}")
with_residual = (x + concat @ w_o) @ w_next
print("with residual: absorbed W_O differs by", f"{(with_residual - (x + concat) @ absorbed).abs().max():.1f}")

# %% [markdown]
# Whether a trained Transformer could do without it has been asked more often than answered. All the usual models have
# it; so has yours.
#
# ## 4 · The module
#
# Seven steps. Before you open the answers, write down the shape after each step, for $B$ sequences of $T$ tokens, $h$
# heads and $d_k = d_{\text{model}} / h$:
#
# 1. the input $x$
# 2. `w_q(x)`, `w_k(x)`, `w_v(x)`
# 3. cut into heads, exchange axes
# 4. scores, scaled; softmax over the keys
# 5. weights times values
# 6. exchange axes back, merge
# 7. `w_o`
#
# <details><summary>The shapes</summary>
#
# | | step | shape |
# |---|---|---|
# | 1 | the input $x$ | $(B, T, d_{\text{model}})$ |
# | 2 | projections | $(B, T, d_{\text{model}})$ each: the *matrix* is square, its result has a row for each token |
# | 3 | cut, exchange | $(B, T, h, d_k) \to (B, h, T, d_k)$ |
# | 4 | scores, weights | $(B, h, T, T)$ |
# | 5 | weights times values | $(B, h, T, d_k)$ |
# | 6 | exchange, merge | $(B, T, h, d_k) \to (B, T, d_{\text{model}})$ |
# | 7 | output | $(B, T, d_{\text{model}})$ |
#
# </details>

# %%
B, T, d_model, h = 2, 5, 12, 3
x = torch.randn(B, T, d_model)
w_q, w_k, w_v, w_o = (nn.Linear(d_model, d_model) for _ in range(4))
q, k, v = (reference.split_heads(w(x), h) for w in (w_q, w_k, w_v))
weights = (q @ k.transpose(-2, -1) / math.sqrt(d_model // h)).softmax(dim=-1)
merged = reference.merge_heads(weights @ v)
steps = {"1 x": x, "2 w_q(x)": w_q(x), "3 split": q, "4 weights": weights, "5 weights @ v": weights @ v}
for step, tensor in {**steps, "6 merge": merged, "7 w_o": w_o(merged)}.items():
    print(f"{step:<14} {tuple(tensor.shape)}")

# %% [markdown]
# In cross-attention queries and keys have different lengths, and the scores are $(B, h, T_q, T_k)$. Sequences of a
# batch never see each other: there is no sum over $B$ anywhere.
#
# ### Which square root?
#
# Step 4 divides by $\sqrt{d_k}$, the size of **one head**. A well-known listing keeps dividing by
# $\sqrt{d_{\text{model}}}$ after the split. With one head it makes no difference, so a quick test does not notice.
# Here are 64 tokens with queries and keys of variance 1 and $d_{\text{model}} = 256$:

# %%
torch.manual_seed(0)
T, d_model = 64, 256
print(f"{'':>21}  score std   entropy of the weights (at most ln 64 = {math.log(64):.2f})")
for h in (1, 4, 8):
    d_k = d_model // h
    q, k = torch.randn(2, h, T, d_k), torch.randn(2, h, T, d_k)
    for name, size in (("√d_k", d_k), ("√d_model", d_model)):
        scores = q @ k.transpose(-2, -1) / math.sqrt(size)
        weights = scores.softmax(dim=-1)
        entropy = -(weights * weights.log()).sum(dim=-1).mean()
        print(f"h = {h}, divided by {name:<9} {scores.std():>7.2f} {entropy:>11.2f}")

# %% [markdown]
# With $\sqrt{d_{\text{model}}}$ the scores are too small by $\sqrt h$ and the weights nearly uniform: the heads begin
# almost blind.
#
# ### A mask for all heads
#
# The scores are (batch, head, query, key), but a mask says nothing about heads: it is (batch, query, key), or just
# (query, key) if it is the same for every sequence. Broadcasting lines shapes up **from the right**:
#
# ```
# scores  (batch, head, query, key)      (batch, head, query, key)      (batch, head,  query, key)
# mask    (batch,    1, query, key)                   (query, key)             (batch, query, key)
#                       ✓                              ✓                 ✗ batch meets head
# ```
#
# So a (batch, query, key) mask needs `unsqueeze(1)`, and a (query, key) mask must *not* get it. One often sees
# `unsqueeze(1)` for any mask. With a (query, key) mask the query axis then lands on the batch or the heads. Mostly
# that raises. When the sizes happen to agree, it does not:

# %%
torch.manual_seed(0)
T = 4
mask = causal_mask(T)
for h in (2, 4):
    scores = torch.randn(1, h, T, T)
    try:
        hidden = ~mask.unsqueeze(1)  # (4, 1, 4): an axis that does not belong there
        weights = scores.masked_fill(hidden, -math.inf).softmax(dim=-1)
        leak = weights[0, :, 0, 1:].max()
        print(f"{h} heads, {T} tokens: no error; token 0 gives up to {leak:.2f} of its attention to the future")
    except RuntimeError as error:
        print(f"{h} heads, {T} tokens: {error}")

# %% [markdown]
# Nothing has to be copied for the heads. `repeat` writes one copy of the mask for each head into memory; broadcasting
# (or `expand`) reads the same one again:

# %%
mask = torch.rand(2, 50, 50) < 0.5
repeated = mask.unsqueeze(1).repeat(1, 8, 1, 1)
expanded = mask.unsqueeze(1).expand(-1, 8, -1, -1)
scores = torch.randn(2, 8, 50, 50)
print("repeat:", repeated.untyped_storage().nbytes(), "bytes;  expand:", expanded.untyped_storage().nbytes(), "bytes")
same = torch.equal(masked_softmax(scores, repeated), masked_softmax(scores, mask.unsqueeze(1)))
print("the same result with unsqueeze(1) alone:", same)

# %% [markdown]
# Some code folds the heads into the batch axis, (batch · head, time, d_k), and uses `torch.bmm`. That is just as
# good, but then a mask has to be repeated in the order in which the batch was folded: sample 0 with all its heads,
# then sample 1. `mask.repeat(h, 1, 1)` has the other order and gives samples each other's masks:

# %%
sample_of_each_row = torch.arange(3)  # three samples, two heads
print("the folded batch:  samples", sample_of_each_row[:, None].expand(3, 2).flatten().tolist())
print("repeat:            samples", sample_of_each_row.repeat(2).tolist())
print("repeat_interleave: samples", sample_of_each_row.repeat_interleave(2).tolist())

q, k = torch.randn(3, 2, 5, 4), torch.randn(3, 2, 5, 4)
folded = torch.bmm(q.reshape(6, 5, 4), k.reshape(6, 5, 4).transpose(1, 2))
print(
    "bmm over the folded batch gives the same scores:",
    torch.allclose(folded.reshape(3, 2, 5, 5), q @ k.transpose(2, 3)),
)

# %% [markdown]
# ### Spot the mistakes
#
# Before you write yours: here is one that somebody else wrote in a hurry. There are four mistakes in it. Two raise at
# once, one waits for a certain input, and one never raises at all.
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
# 3. `mask.unsqueeze(1)` for every mask: a (query, key) mask *raises, or is silently wrong*, depending on the sizes.
# 4. It scales by √d_model. *Never raises.*
#
# And something that is missing: nobody checks that `heads` divides `d_model`. With 8 features and 3 heads the
# complaint comes later, from `view`, in words that nobody understands. Note also that its mask is 0 where attention
# is **forbidden**, written with numbers; ours is boolean, with the same meaning. Elsewhere True means *forbidden*.
# Always ask.
#
# </details>
#
# Here is that complaint, and one that helps:

# %%
try:
    torch.randn(2, 4, 8).view(2, -1, 3, 8 // 3)
except RuntimeError as error:
    print("without a check:", error)
try:
    reference.MultiHeadAttention(8, 3)
except ValueError as error:
    print("with a check:   ", error)

# %% [markdown]
# ### Dropout on the weights
#
# In training a few weights are set to 0 at random, and the others divided by $1 - p$. A token then cannot rely on one
# single look. It happens **after** the softmax, and never in evaluation. `nn.Dropout` knows by itself whether the
# model is training. (The paper also drops parts of the *output*, before the residual connection. That is the layer's
# business, not attention's.)
#
# {{exercise MultiHeadAttention}}
#
# Now the whole thing. You may use `reference.split_heads`, `reference.merge_heads` and `masked_softmax(scores, mask)`
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
            raise ValueError(f"d_model = {d_model} cannot be shared out over {num_heads} heads.")
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
        Dropout falls on the weights, in training only, and on nothing else.
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

# %%
torch.manual_seed(2)
module = reference.MultiHeadAttention(16, 4)
x = 2 * torch.randn(1, 5, 16)  # five random vectors, one for each word
_, weights = module(x, x, x, causal_mask(5))
fig, axes = plt.subplots(1, 4, figsize=(9, 2.7), sharey=True)
for i, ax in enumerate(axes):
    show_matrix(
        weights[0, i],
        f"head {i}",
        column_names=words,
        row_names=words,
        rows="query" if i == 0 else "",
        limits=(0, 1),
        ax=ax,
        numbers=False,
    )
fig.suptitle("four heads before any training, with a causal mask", fontsize="medium")
plt.show()

# %% [markdown]
# Four different maps of the same sentence, because the four slices of $W^Q$ and $W^K$ are different random numbers.
# The triangle is the same in all of them: one mask for all heads.
#
# You will meet versions with more knobs: sizes `d_k` and `d_v` that are chosen freely (then $W^Q$ is
# $d_{\text{model}} \times h \cdot d_k$), or hidden scores filled with $-10^9$ or $-10^4$ instead of $-\infty$. They
# are the same machine.
#
# ## 5 · Against torch's own
#
# `nn.MultiheadAttention` does the same. Copy our weights into it, convert the mask (there **True means forbidden**),
# and the two agree. It keeps the three input projections in one matrix: first all of $W^Q$, then $W^K$, then $W^V$.

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
difference = (output - torch_output).abs().max()
print(f"outputs differ by {difference:.0e}, weights by {(weights - torch_weights).abs().max():.0e}")

# %% [markdown]
# Four traps lie around it. Suppose someone puts it into a layer like this:
#
# ```python
# self.attention = nn.MultiheadAttention(hidden_size, num_heads)
# …
# attended = self.dropout(self.attention(x, x, x, mask))
# ```
#
# **Trap 1: the result is a tuple.** `dropout` gets (output, weights) and raises.
#
# **Trap 2: without `batch_first=True` the first axis is time.** The output still has the right shape. But sequences
# of the batch now look at each other, and positions of one sequence do not:

# %%
torch.manual_seed(0)
time_first = nn.MultiheadAttention(16, 4)  # batch_first is missing
x = torch.randn(2, 4, 16, requires_grad=True)  # meant as 2 sequences of 4 tokens

try:
    nn.Dropout(0.1)(time_first(x, x, x))
except TypeError as error:
    print("trap 1:", error)

output, weights = time_first(x, x, x)
(slope,) = torch.autograd.grad(output[0, 0].sum(), x)
print("trap 2: output", tuple(output.shape), " weights", tuple(weights.shape), "instead of (2, 4, 4)")
reached = slope.abs().sum(dim=-1)  # (sequence, position)
show_matrix(
    (reached > 0).float(),
    "what output [sequence 0, position 0] depends on",
    rows="sequence",
    columns="position",
    limits=(0, 1),
)
plt.show()

# %% [markdown]
# It depends on position 0 of *both* sequences, and on nothing else of its own. A gradient finds in one line what no
# shape shows.
#
# **Trap 3: the fourth positional argument is not the mask.** It is `key_padding_mask`, which says which *tokens* to
# ignore, (batch, key). The mask over pairs is `attn_mask`, sixth in the row. Mostly one gets an error; if the batch
# happens to be as large as the sequence is long, one gets wrong numbers.
#
# **Trap 4: True means forbidden.** A causal mask passed on as it is shows each token only its own future, and the
# last one nothing at all.

# %%
torch.manual_seed(0)
module = nn.MultiheadAttention(16, 4, batch_first=True).eval()
forbidden = ~causal_mask(4)
for batch in (2, 4):
    x = torch.randn(batch, 4, 16)
    right_output, _ = module(x, x, x, attn_mask=forbidden)
    try:
        wrong_output, _ = module(x, x, x, forbidden)
        print(f"trap 3, batch {batch}: no error, output wrong by {(wrong_output - right_output).abs().max():.2f}")
    except (AssertionError, RuntimeError) as error:
        print(f"trap 3, batch {batch}: {error}")

_, weights = module(x, x, x, attn_mask=causal_mask(4))  # allowed, where forbidden is expected
print("trap 4: weights of the first token:", [f"{w:.2f}" for w in weights[0, 0].tolist()])
print("        weights of the last token: ", [f"{w:.2f}" for w in weights[0, -1].tolist()])

# %% [markdown]
# Pass masks by name (`attn_mask=`), set `batch_first=True`, unpack the tuple, and invert the mask.
#
# ## 6 · Which initialisation is it?
#
# You meet this line in a multi-head attention with $d_{\text{model}} = 512$ and heads of 64:
#
# ```python
# nn.init.normal_(self.w_q.weight, std=math.sqrt(2 / (d_model + d_k)))   # "He initialisation"
# ```
#
# The comment is wrong, and the number is at least surprising. Work out the three candidates:
#
# - He: $\sqrt{2 / \text{fan}_{\text{in}}} = \sqrt{2 / 512} = 0.0625$;
# - Glorot (Xavier), for the real $512 \times 512$ matrix: $\sqrt{2 / (512 + 512)} = 0.0442$;
# - Glorot, for the $512 \times 64$ slice of one head: $\sqrt{2 / (512 + 64)} = 0.0589$.
#
# It is the third. Does it matter? What we want at the start are scores with a standard deviation near 1, so that the
# softmax is neither flat nor saturated. Measure it, for inputs of variance 1:

# %%
torch.manual_seed(0)
d_model, h, T = 512, 8, 128
x = torch.randn(4, T, d_model)


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
    "nn.Linear's own": lambda w: nn.init.kaiming_uniform_(w, a=math.sqrt(5)),
    "nn.MultiheadAttention's own": lambda w: nn.init.uniform_(w, -math.sqrt(6 / (4 * 512)), math.sqrt(6 / (4 * 512))),
}
print(f"{'':<30} std of q   std of the scores")
for name, init in inits.items():
    q_std, score_std = start_of(init)
    print(f"{name:<30} {q_std:>7.2f} {score_std:>16.2f}")

# %% [markdown]
# Glorot for the whole matrix gives 1. The slice formula gives 1.8: a sharper start than intended. torch's own choices
# begin softer. (Its module treats q, k and v as one $1536 \times 512$ matrix when it computes the fan.) All of these
# train; but when a comment and a number disagree, measure.
#
# ## 7 · The same in einsum
#
# With heads, matrix products have many axes, and `transpose` and `reshape` hide which axis meets which. `einsum`
# names them. Give each axis a letter: **b** batch, **t** query position, **s** key position, **m** feature of the
# model, **h** head, **d** feature of a head. A letter that is missing on the right is summed over.
#
# | what | einsum |
# |---|---|
# | queries of all heads | `"btm,mhd->bhtd"` |
# | scores: sum over d, keep b and h | `"bhtd,bhsd->bhts"` |
#
# Try it in the small: scores of all heads with a loop, and with einsum.

# %%
torch.manual_seed(0)
q, k = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 6, 5)
loop = torch.stack([torch.stack([q[b, h] @ k[b, h].T for h in range(3)]) for b in range(2)])
named = torch.einsum("bhtd,bhsd->bhts", q, k)
print("loop and einsum differ by", f"{(loop - named).abs().max():.0e}")

# %% [markdown]
# {{exercise multi_head_einsum}}
#
# Self-attention with given matrices, no biases, no mask. Here the matrices are used as $x W$ (not transposed, as
# `nn.Linear` stores them). Only the result counts: einsum is the suggestion, any way to the same numbers is fine.
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
    w_q, w_k, w_v = (w.reshape(d_model, num_heads, d_k) for w in (w_q, w_k, w_v))  # (m, h, d)
    q, k, v = (torch.einsum("btm,mhd->bhtd", x, w) for w in (w_q, w_k, w_v))
    weights = (torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(d_k)).softmax(dim=-1)
    heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
    return torch.einsum("bhtd,hdm->btm", heads, w_o.reshape(num_heads, d_k, d_model))
    ### END SOLUTION


# %% check multi_head_einsum
check(multi_head_einsum)

# %% [markdown]
# In the last line the merge has disappeared: to sum over `h` and `d` at once *is* "side by side, times $W^O$".

# %%
torch.manual_seed(0)
x = torch.randn(1, 6, 8)
w_q, w_k, w_v, w_o = (torch.randn(8, 8) / math.sqrt(8) for _ in range(4))
fig, axes = plt.subplots(1, 3, figsize=(9, 2.9))
for ax, h in zip(axes, (1, 2, 4)):
    output = reference.multi_head_einsum(x, w_q, w_k, w_v, w_o, h)
    show_matrix(
        output[0].detach(),
        f"{h} head{'s'[: h - 1]}",
        rows="token",
        columns="feature",
        diverging=True,
        limits=(-1.5, 1.5),
        numbers=False,
        ax=ax,
    )
fig.suptitle("the same input and the same four matrices, cut into 1, 2 and 4 heads", fontsize="medium")
plt.show()

# %% [markdown]
# The same parameters, and yet three different functions: the number of heads is not just a matter of storage.
#
# ## 8 · What heads look at
#
# Now we let heads *learn* what to look at, in a task that needs two looks. Each of 8 tokens has a position, a letter,
# a name (each name occurs once) and a question: the name of some token. At each token the model shall say **two**
# letters:
#
# 1. the letter of the token *before* it (the first one looks at the last): a look by **position**;
# 2. the letter of the token whose *name it asks for*: a look by **content**.
#
# The model is one attention and one linear layer that reads both answers off its output. No more.

# %%
LENGTH, LETTERS = 8, 6


def make_batch(size: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns: inputs (batch, time, 30), letter before, letter asked for, and where that one stands (batch, time)."""
    position = torch.arange(LENGTH).expand(size, -1)
    letter = torch.randint(LETTERS, (size, LENGTH), generator=generator)
    name = torch.rand(size, LENGTH, generator=generator).argsort(dim=1)  # a shuffle of 0 … 7
    asks = torch.randint(LENGTH, (size, LENGTH), generator=generator)
    where = (name[:, None, :] == asks[:, :, None]).int().argmax(dim=-1)
    parts = ((position, LENGTH), (letter, LETTERS), (name, LENGTH), (asks, LENGTH))
    x = torch.cat([F.one_hot(values, count) for values, count in parts], dim=-1).float()
    return x, letter.roll(1, dims=1), letter.gather(1, where), where


class TwoLetters(nn.Module):
    def __init__(self, num_heads: int, d_model: int = 32):
        super().__init__()
        self.embed = nn.Linear(3 * LENGTH + LETTERS, d_model)
        self.attention = reference.MultiHeadAttention(d_model, num_heads)
        self.read = nn.Linear(d_model, 2 * LETTERS)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.embed(x)
        output, weights = self.attention(x, x, x)
        return self.read(output).unflatten(-1, (2, LETTERS)), weights


def train(num_heads: int, seed: int = 0, share_of_second: float = 1.0) -> TwoLetters:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = TwoLetters(num_heads)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(400):
        x, before, asked, _ = make_batch(64, generator)
        logits, _ = model(x)
        loss = F.cross_entropy(logits[:, :, 0].flatten(0, 1), before.flatten())
        loss = loss + share_of_second * F.cross_entropy(logits[:, :, 1].flatten(0, 1), asked.flatten())
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


models = {(h, seed): train(h, seed) for h in (1, 2) for seed in (0, 1)}
for (h, seed), model in models.items():
    first, second = accuracy(model)
    print(f"{h} head{'s'[: h - 1]}, seed {seed}: letter before {first:.0%}, letter asked for {second:.0%}")
print(f"guessing: {1 / LETTERS:.0%}")

# %% [markdown]
# The same number of parameters, the same steps. One head has to share out its attention between two places, and since
# it can tell no longer which letter came from where, it answers one question and hardly the other. Two heads answer
# both.
#
# What do the two heads look at? Here is one test sequence, for two runs that differ in the seed only. A vermilion
# frame marks the token *before*, a blue one the token that is *asked for*.


# %%
def frame(ax, columns, colour: str, inset: float) -> None:
    for row, column in enumerate(columns):
        side = 1 - 2 * inset
        ax.add_patch(
            plt.Rectangle(
                (column - 0.5 + inset, row - 0.5 + inset), side, side, fill=False, edgecolor=colour, linewidth=1.6
            )
        )


fig, axes = plt.subplots(1, 4, figsize=(9, 2.9), sharey=True)
for seed in (0, 1):
    with torch.no_grad():
        _, weights = models[2, seed](test_inputs[:1])
    for head in (0, 1):
        ax = axes[2 * seed + head]
        show_matrix(
            weights[0, head],
            f"seed {seed}, head {head}",
            rows="query" if seed + head == 0 else "",
            numbers=False,
            limits=(0, 1),
            ax=ax,
        )
        frame(ax, [(t - 1) % LENGTH for t in range(LENGTH)], "#D55E00", 0.05)
        frame(ax, test_where[0].tolist(), "#56B4E9", 0.16)
fig.suptitle("weights of the two heads, in two runs", fontsize="medium")
plt.show()

# %% [markdown]
# In each run one head looks at the token before (the yellow diagonal) and the other one at the token that is asked
# for. **Which** head does what depends on the seed alone: nobody told them. Be careful, then, with sentences like
# "head 3 does syntax". They are about one trained model, not about the architecture; and this task was made so that
# two clean roles exist. In large models some heads can be read as nicely as these (the previous word, the subject,
# the object), and many cannot.
#
# ### More heads are not always better
#
# Does each head matter? Switch one off (let $W^O$ no longer listen to it) and measure again: in the model with two
# heads, and in one with four.


# %%
@torch.no_grad()
def accuracy_without(model: TwoLetters, head: int) -> tuple[float, float]:
    """The accuracies if W_O no longer listens to one head."""
    w_o = model.attention.w_o.weight
    kept = w_o.clone()
    d_k = w_o.shape[1] // model.attention.num_heads
    w_o[:, head * d_k : (head + 1) * d_k] = 0
    result = accuracy(model)
    w_o.copy_(kept)
    return result


fig, axes = plt.subplots(1, 2, figsize=(9, 3), sharey=True, width_ratios=[3, 5])
for ax, model in zip(axes, (models[2, 1], train(4, seed=1))):
    h = model.attention.num_heads
    results = torch.tensor([accuracy(model), *[accuracy_without(model, head) for head in range(h)]])
    places = torch.arange(h + 1)
    ax.bar(places - 0.2, results[:, 0], 0.38, label="letter before", color=COLOURS[1])
    ax.bar(places + 0.2, results[:, 1], 0.38, label="letter asked for", color=COLOURS[4])
    ax.axhline(1 / LETTERS, color="black", linestyle=":", linewidth=1, label="guessing")
    ax.set_xticks(places, ["none", *map(str, range(h))])
    ax.set(title=f"{h} heads", xlabel="head switched off", ylim=(0, 1.05))
axes[0].set_ylabel("accuracy")
axes[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
plt.show()

# %% [markdown]
# With two heads each carries one of the two answers. With four heads for two looks, several share a job, and each one
# alone can go at little cost. In trained translators, too, many heads can be removed after training with hardly a
# loss (Michel et al. 2019, "Are sixteen heads really better than one?"; Voita et al. 2019).
#
# And if the task needs one look only, one head is enough:

# %%
for h in (1, 2):
    first, _ = accuracy(train(h, share_of_second=0.0))
    print(f"trained on the first question alone, {h} head{'s'[: h - 1]}: letter before {first:.0%}")

# %% [markdown]
# ### In your own words
#
# $d_{\text{model}}$ stays the same, and instead of 1 head you take 8. What does it cost in parameters and in
# multiplications? What can the layer do now that it could not do before, and what does each head have less of?

# %% answer one_head_or_eight 2 [markdown]
# ### BEGIN SOLUTION
# Parameters and multiplications stay the same, because each of the 8 heads works with d_model / 8 features, and 8 ·
# d_model · (d_model / 8) = d_model². (There are 8 maps of weights to store instead of 1.) The layer has 8 softmaxes,
# so a token can look at several places at once with full strength, and their results stay apart, side by side,
# instead of being averaged. Each head has fewer features for its queries, keys and values: a coarser measure of
# likeness, and less room for what it carries over.
# ### END SOLUTION

# %% [markdown]
# ## 9 · One step further: grouped queries
#
# A model that writes text token by token keeps the keys and values of all earlier tokens: the **KV cache**. For each
# token, in each layer, that is $2 \cdot h \cdot d_k$ numbers. With long texts this cache, and not the parameters,
# fills the memory.
#
# Queries are not kept. So let several query heads **share** one head of keys and values: $h$ query heads, but only
# $g$ groups of keys and values. With $g = h$ this is the attention you built; with $g = 1$ it is called *multi-query*
# attention (Shazeer 2019); in between, *grouped-query* attention (Ainslie et al. 2023).
#
# $$\text{query head } i \text{ reads group } \left\lfloor \frac{i}{h / g} \right\rfloor$$
#
# With 4 heads and 2 groups: heads 0 and 1 read group 0, heads 2 and 3 read group 1. Neighbours share. torch has two
# functions that repeat, and only one of them keeps neighbours together:

# %%
groups = torch.arange(2)
print("repeat:           ", groups.repeat(2).tolist())
print("repeat_interleave:", groups.repeat_interleave(2).tolist())

# %% [markdown]
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

# %%
layers, d_k, bytes_each = 32, 128, 2  # a model of some 7 billion parameters, numbers of 2 bytes
lengths = torch.tensor([1_000, 2_000, 4_000, 8_000, 16_000, 32_000])
fig, ax = plt.subplots(figsize=(6.5, 3.2))
for (groups, name), style in zip(
    ((32, "32 groups: multi-head"), (8, "8 groups: grouped"), (1, "1 group: multi-query")), "os^"
):
    cache = 2 * layers * groups * d_k * bytes_each * lengths / 2**30
    ax.plot(lengths, cache, style + "-", label=name)
    one_token = 2 * layers * groups * d_k * bytes_each / 1024
    print(f"{name:<22} {one_token:>6.0f} KiB a token, {cache[-1]:>5.1f} GiB for 32,000 tokens")
ax.set(
    title="KV cache of one sequence: 32 layers, 32 query heads of 128",
    xlabel="tokens",
    ylabel="GiB",
    xscale="log",
    yscale="log",
)
ax.legend()
plt.show()

# %% [markdown]
# A quarter of the groups, a quarter of the cache. The queries keep all their heads, so there are still 32 different
# softmaxes.
#
# ## What you can do now
#
# - say why one softmax cannot look at two places with full strength, and show it with two sentences;
# - split and merge heads, and recognise a split that mixes tokens although every shape is right;
# - tell `view`, `reshape` and `contiguous` apart;
# - count parameters and multiplications, and say why the number of heads falls out;
# - write multi-head attention for self- and cross-attention, with masks and dropout, as a module and as einsum;
# - use `nn.MultiheadAttention` without falling into its four traps;
# - read pictures of heads with the right amount of doubt;
# - shrink the KV cache with grouped queries.
#
# **Next** comes what stands around attention in a layer: the residual connection, the norm, the feed-forward network.
#
# **To read**
#
# - Vaswani et al. (2017), *Attention is all you need*, section 3.2.2: the formula of this notebook.
# - Michel, Levy, Neubig (2019), *Are sixteen heads really better than one?*
# - Voita et al. (2019), *Analyzing multi-head self-attention: specialized heads do the heavy lifting, the rest can be
#   pruned.*
# - Shazeer (2019), *Fast transformer decoding: one write-head is all you need*; Ainslie et al. (2023), *GQA*.
