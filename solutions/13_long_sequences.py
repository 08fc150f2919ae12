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
# # 13 · Long sequences: the price of looking at everything
#
# {{term attention|Attention}} compares every position with every other. That is its strength, and for a book, an hour
# of sound or a large picture it is too expensive. Here you measure the price, then avoid it in three ways: compute the
# same result in less memory, compute something cheaper and different, or remember instead of looking again.

# %% setup
import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from matplotlib.colors import ListedColormap
from torch import Tensor, nn

from course_lib import check, hint, long_range, serving, solution, yours
from course_lib import long_sequences as reference
from course_lib.dot_product_attention import scaled_dot_product_attention
from course_lib.masks import causal_mask, masked_attention, window_mask
from course_lib.plotting import COLOURS, show_map, show_matrix, use_course_style
from course_lib.progress_bar import bar
from course_lib.settings import course_device
from course_lib.training import MemoryMeter

use_course_style()
device = course_device()
FAST = os.environ.get("COURSE_FAST") == "1"  # for testing the notebook: the same cells, shorter sequences, fewer steps

# %% figure Where we are
show_map("13_long_sequences")

# %% [markdown]
# ## 1 · Where the n² goes
#
# For $n$ positions and one {{term head}} of width $d_k$,
#
# $$\underbrace{S = QK^\top / \sqrt{d_k}}_{n^2 d_k \text{ multiplications}} \qquad
# \underbrace{A = \operatorname{softmax}(S)}_{n^2 \text{ exponentials}} \qquad
# \underbrace{O = AV}_{n^2 d_k \text{ multiplications}}$$
#
# so the time is $O(n^2 d_k)$ for each head, and for a {{term batch}} of $B$ sequences $O(B\,n^2 d_k)$ per head. $Q$,
# $K$, $V$ and $O$ hold $n\,d_k$ numbers each. $S$ and $A$ hold $n^2$. `MemoryMeter`, from notebook 8, counts the bytes
# of all {{term tensor|tensors}} made inside a `with` block.


# %%
def cost(action: Callable[..., object], *arguments: Any) -> tuple[float, float]:
    """The CPU seconds of action(*arguments), and the most megabytes that its tensors take at any one time."""
    with MemoryMeter() as meter:
        action(*arguments)
    start = time.process_time()
    action(*arguments)
    return time.process_time() - start, meter.peak / 1e6


def new_qkv(n: int, d_k: int = 64) -> list[Tensor]:
    return [torch.randn(n, d_k) for _ in range(3)]


torch.manual_seed(0)
LENGTHS = [512, 1024, 2048] if FAST else [512, 1024, 2048, 4096, 8192]
naive = {}  # length -> seconds, megabytes
for n in LENGTHS:
    q, k, v = new_qkv(n)
    naive[n] = cost(scaled_dot_product_attention, q, k, v)
    print(f"n = {n:5}: {naive[n][0]:6.3f} s, {naive[n][1]:7.1f} MB beside 3 × {4 * q.numel() / 1e6:.1f} MB of input")

# %% figure Time and memory of one attention head
figure, axes = plt.subplots(1, 2, figsize=(9, 3.2))
for ax, which, unit in ((axes[0], 0, "CPU seconds"), (axes[1], 1, "megabytes at most")):
    measured = [naive[n][which] for n in LENGTHS]
    ax.loglog(LENGTHS, measured, "o-", base=2, label="measured")
    square = [measured[-1] * (n / LENGTHS[-1]) ** 2 for n in LENGTHS]
    line = [measured[-1] * n / LENGTHS[-1] for n in LENGTHS]
    ax.loglog(LENGTHS, square, "--", color="grey", base=2, label="∝ n²")
    ax.loglog(LENGTHS, line, ":", color="grey", base=2, label="∝ n")
    ax.set(title=unit, xlabel="length n")
    ax.set_xticks(LENGTHS, [f"{n:,}" for n in LENGTHS])
    low, high = ax.get_ylim()
    ticks = [t for t in (10.0**e * f for e in range(-4, 5) for f in (1, 3)) if low < t < high]
    ax.set_yticks(ticks, [f"{t:g}" for t in ticks])
    ax.minorticks_off()
axes[0].legend()
plt.show()

# %% claims
growth = naive[LENGTHS[-1]][1] / naive[LENGTHS[-3]][1]
claim("four times the length, sixteen times the memory", 14 < growth < 17)
if not FAST:
    claim("four times the length, far more than four times the time", naive[8192][0] / naive[2048][0] > 7)
    claim("half a gigabyte at 8,192", 500 < naive[8192][1] < 600)

# %% [markdown]
# Twice the length, four times the memory: half a gigabyte for one head and 8,192 positions. Training keeps more of
# these matrices: the scores, the weights, and the {{term gradient}} of each.
#
# $$\text{bytes} = \underbrace{\text{batch} \cdot \text{heads} \cdot \text{copies}}_{\text{matrices}}
# \cdot\; n^2 \cdot \text{bytes per number}$$
#
# {{exercise attention_memory}}


# %% exercise attention_memory
def attention_memory(batch: int, num_heads: int, length: int, copies: int, bytes_per_number: int) -> int:
    """How many bytes the score matrices of one attention layer take.

    Every head of every sequence has one score for each pair of a query and a key. `copies`: how many matrices of this
    size are kept, for example the scores, the weights, and the gradient of each.
    """
    ### BEGIN SOLUTION
    pairs = length * length
    matrices = batch * num_heads * copies
    return matrices * pairs * bytes_per_number
    ### END SOLUTION


# %% check attention_memory
check(attention_memory)

# %% [markdown]
# Notebook 8 quoted a claim from a well-known tutorial: "In 32 bits, 16 matrices for $n = 1000$ take about 250 MB. Each
# layer needs four of them, so a GPU with 12 GB is full after 12 layers." Your function can check it. (Wherever your own
# answer has passed its check, the cells below use it; otherwise they use the course's own, and the cell says so.)

# %%
bytes_of = yours("attention_memory", attention_memory)
one_copy = bytes_of(16, 1, 1000, 1, 4)
layer, layer_of_four_heads = bytes_of(16, 1, 1000, 4, 4), bytes_of(16, 4, 1000, 4, 4)
print(f"16 matrices: {one_copy / 1e6:.0f} MB; all four copies: {layer / 1e6:.0f} MB")
print(f"layers in 12 GB: {12e9 / layer:.1f} with one head, {12e9 / layer_of_four_heads:.1f} with four heads")
long_text = 48 * bytes_of(1, 1, 12_000, 4, 4)
print(f"48 layers, 12,000 positions, one sequence, one head: {long_text / 1e9:.0f} GB")

# %% claims
claim("16 matrices take 64 MB", one_copy == 64_000_000)
claim("250 MB are already all four copies", layer == 256_000_000)
claim("46 layers fit, not 12", int(12e9 / layer) == 46)
claim("with four heads it is 11", int(12e9 / layer_of_four_heads) == 11)
claim("more than 100 GB for 12,000 positions", 105e9 < long_text < 115e9)

# %% [markdown]
# The four copies were counted twice: 46 layers fit, not 12. (With four heads it is 11, so perhaps the sentence forgot
# to mention them.) The trouble is real all the same: a single text of 12,000 positions needs more than 100 GB.
#
# **How a GPU hides the time.** A GPU has thousands of small units, and attention keeps them busy on two levels: the
# sequences of a batch do not depend on each other, and inside each matrix product all dot products are independent. A
# batch of one has only the second level; an RNN, inside a sequence, has neither, because every step waits for the one
# before. Even on one CPU thread, which runs nothing in parallel, work that is handed over in one piece is faster than
# many small calls:

# %%
sequences = torch.randn(256, 16, 64)  # (batch, time, d_k)
keys_first = sequences.transpose(1, 2)  # (batch, d_k, time)
one_by_one = lambda: [q @ k for q, k in zip(sequences, keys_first)]
each_score = lambda: [query @ key for query in sequences[0] for key in sequences[0]]
at_once = lambda: sequences @ keys_first
times = {
    "one batch": cost(lambda: [at_once() for _ in range(50)])[0] / 50,
    "256 sequences one by one": cost(lambda: [one_by_one() for _ in range(5)])[0] / 5,
    "score by score": 256 * cost(lambda: [each_score() for _ in range(5)])[0] / 5,
}
for name, seconds in times.items():
    print(f"{name:25} {1e3 * seconds:8.2f} ms")

# %% claims
claim("one by one takes longer", times["256 sequences one by one"] > 1.2 * times["one batch"])
claim("score by score much longer", times["score by score"] > 20 * times["one batch"])

# %% [markdown]
# Parallel work hides time, as long as units are idle. It does not make the matrix smaller.
#
# ## 2 · Exact, but small
#
# Must the whole matrix exist? The output of a query needs its row only as a *sum* over the keys, and a sum can be
# computed piece by piece. The {{term softmax}} seems to forbid that. Two wrong ways first:

# %%
torch.manual_seed(1)
row = 40 * torch.randn(48)  # the scores of one query, in three pieces
pieces = row.split(16)
want = row.softmax(dim=0)
piecewise = torch.cat([piece.softmax(dim=0) for piece in pieces])
print(f"a softmax of each piece: the weights sum to {piecewise.sum():.1f}, not to 1")
unshifted = torch.exp(row) / sum(torch.exp(piece).sum() for piece in pieces)
print(f"without a shift: exp({row.max():.0f}) is {torch.exp(row).max()}, and its weight is {unshifted[row.argmax()]}")

# %% claims
claim("three pieces sum to 3", abs(piecewise.sum() - 3) < 1e-5)
claim("exp of the largest score is infinite", bool(torch.exp(row).max().isinf()) and bool(unshifted.isnan().any()))

# %% [markdown]
# Every piece by itself sums to 1, and without subtracting the maximum, $e^{s}$ overflows. But the maximum of the row is
# known only after the last piece. The solution (Milakov and Gimelshein 2018): keep the maximum **so far**, and whenever
# a larger one comes, scale down the sum that was computed with the old one. With $m$ for the maximum, $s$ for the sum
# and $c$ for the scores of the next piece:
#
# $$m' = \max(m, \max_j c_j) \qquad\qquad s' = s \cdot e^{m - m'} + \sum_j e^{c_j - m'}$$
#
# All exponents are at most 0, so nothing overflows. At the beginning $s = 0$ and $m$ is smaller than every score. (Mind
# $-\infty$ as the first $m$: if the first piece is entirely hidden, $m - m'$ would be $-\infty - (-\infty)$, which is
# NaN.)
#
# {{exercise online_softmax}}


# %% exercise online_softmax
def online_softmax(chunks: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """What the softmax of a long row needs to know, from one pass over its pieces.

    chunks: the scores in pieces along the last axis, (…, c) each, where c may differ. A score may be -inf, and so may
    a whole chunk, but not a whole row. Returns: the maximum m of each row, and the sum s of exp(score - m) over the
    row, (…) each. So exp(score - m) / s is the softmax.
    """
    ### BEGIN SOLUTION
    shape = chunks[0].shape[:-1]
    maximum = chunks[0].new_full(shape, torch.finfo(chunks[0].dtype).min)  # not -inf: (-inf) - (-inf) is NaN
    total = chunks[0].new_zeros(shape)
    for chunk in chunks:
        new_maximum = torch.maximum(maximum, chunk.amax(dim=-1))
        total = total * torch.exp(maximum - new_maximum)  # the old sum, as seen from the new maximum
        total = total + torch.exp(chunk - new_maximum[..., None]).sum(dim=-1)
        maximum = new_maximum
    return maximum, total
    ### END SOLUTION


# %% check online_softmax
check(online_softmax)

# %% figure One pass over a row: the running maximum, and the sum that is shrunk when it rises
own_online = yours("online_softmax", online_softmax)
torch.manual_seed(6)
row = 1.5 * torch.randn(40)
so_far = [own_online(row[: end + 1].split(1)) for end in range(len(row))]
maxima, sums = (torch.stack([torch.as_tensor(pair[i]) for pair in so_far]) for i in (0, 1))
figure, axes = plt.subplots(2, 1, figsize=(8, 4.2), sharex=True)
axes[0].vlines(range(40), 0, row, color=COLOURS[0], linewidth=2)
axes[0].step(range(40), maxima, where="mid", color=COLOURS[1], label="maximum so far")
axes[0].set(title="Scores of one query", ylabel="score")
axes[0].legend(loc="lower right")
axes[1].step(range(40), sums, where="mid", color=COLOURS[2], label="sum of exp(score − maximum so far)")
rises = [i for i in range(1, 40) if maxima[i] > maxima[i - 1]]
for i in rises:
    axes[1].axvline(i, color=COLOURS[1], linestyle=":", linewidth=1)
axes[1].set(title="The sum falls only where the maximum rises (dotted)", xlabel="key", ylabel="sum", ylim=(0, None))
axes[1].legend(loc="lower right")
plt.show()
final = torch.exp(row - maxima[-1]) / sums[-1]
print(f"largest difference to torch's softmax: {(final - row.softmax(dim=0)).abs().max():.1e}")

# %% claims
claim("the same softmax", (final - row.softmax(dim=0)).abs().max() < 1e-6)
falls = [i for i in range(1, 40) if sums[i] < sums[i - 1]]
claim("the sum falls only where the maximum rises", set(falls) <= set(rises))
claim("the maximum rises a few times", 2 <= len(rises) <= 8)

# %% [markdown]
# ### Tiles
#
# The weighted sum of the {{term value|values}} is rescaled in the same way. For one query, with the scores $c$ and the
# values $V_c$ of the next **{{term tile}}** of keys:
#
# $$s' = s\,e^{m - m'} + \sum_j e^{c_j - m'} \qquad
# o' = o\,e^{m - m'} + e^{c - m'} V_c \qquad \text{in the end: } \frac{o}{s}$$
#
# All $n_q$ queries do this at once, and at most $n_q \times \text{tile}$ scores exist at any time. If the attention is
# {{term causal}}, hide in each tile the keys that come after the query: the keys of a tile begin at `start`, not at 0.
# If you make all scores at once, the check says so; that costs no points.
#
# {{exercise tiled_attention}}


# %% exercise tiled_attention
def tiled_attention(q: Tensor, k: Tensor, v: Tensor, tile: int, causal: bool) -> Tensor:
    """softmax(q kᵀ / √d_k) v, with `tile` keys at a time: no tensor with all scores is ever made.

    q: (…, n_q, d_k); k: (…, n_k, d_k); v: (…, n_k, d_v); the last tile may be shorter.
    causal: query i attends to keys 0 to i only (then n_q = n_k). Returns: (…, n_q, d_v).
    """
    ### BEGIN SOLUTION
    n_q, n_k = q.shape[-2], k.shape[-2]
    queries = torch.arange(n_q, device=q.device)[:, None]  # (n_q, 1)
    maximum = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)  # (…, n_q, 1)
    total = torch.zeros_like(maximum)
    output = q.new_zeros(*q.shape[:-1], v.shape[-1])  # (…, n_q, d_v): the weighted sum so far, not yet divided
    for start in range(0, n_k, tile):
        k_tile = k[..., start : start + tile, :]  # (…, tile, d_k)
        v_tile = v[..., start : start + tile, :]  # (…, tile, d_v)
        scores = q @ k_tile.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (…, n_q, tile)
        if causal:
            keys = start + torch.arange(k_tile.shape[-2], device=q.device)  # (tile,)
            scores = scores.masked_fill(keys > queries, -torch.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)  # (…, n_q, tile)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        output = output * shrink + weights @ v_tile
        maximum = new_maximum
    return output / total
    ### END SOLUTION


# %% check tiled_attention
check(tiled_attention)

# %% [markdown]
# Now we compare the naive form, your tiles of 128 keys, and torch's **fused operator**, which also works in tiles, in a
# single program. (`MemoryMeter` sees tensors only, not what the operator needs inside. According to the operating
# system that is little: `python -m benchmarks long_sequences`.)

# %%
own_tiled = yours("tiled_attention", tiled_attention)
race = {"naive": naive, "tiled": {}, "fused": {}}
for n in LENGTHS:
    q, k, v = new_qkv(n)
    race["tiled"][n] = cost(own_tiled, q, k, v, 128, False)
    race["fused"][n] = cost(F.scaled_dot_product_attention, *(x[None, None] for x in (q, k, v)))
difference = (own_tiled(q, k, v, 128, False) - scaled_dot_product_attention(q, k, v)[0]).abs().max().item()
print(f"largest difference between tiled and naive, n = {n:,}: {difference:.1e}")
for name, measured in race.items():
    seconds, megabytes = measured[n]
    print(f"{name:6} {seconds:6.2f} s  {megabytes:7.1f} MB, the naive memory divided by {naive[n][1] / megabytes:.0f}")

# %% figure Naive, tiled and fused: the same result
figure, axes = plt.subplots(1, 2, figsize=(9, 3.2))
for ax, which, title in ((axes[0], 0, "CPU seconds"), (axes[1], 1, "megabytes at most")):
    for (name, measured), marker in zip(race.items(), "os^"):
        ax.plot(LENGTHS, [measured[n][which] for n in LENGTHS], marker + "-", label=name)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set(title=title, xlabel="length n")
    ax.set_xticks(LENGTHS, [f"{n:,}" for n in LENGTHS])
    ax.minorticks_off()
axes[0].legend()
plt.show()

# %% claims
last, first = LENGTHS[-1], LENGTHS[0]
claim("the same result", difference < 1e-5)
claim("the tiles' memory grows like n", race["tiled"][last][1] / race["tiled"][first][1] < 1.5 * last / first)
claim("the fused operator takes less still", race["fused"][last][1] < race["tiled"][last][1])
if not FAST:
    claim("and no more time", race["tiled"][last][0] < 1.1 * race["naive"][last][0])
    claim("less than a fifteenth of the memory at 8,192", race["tiled"][last][1] < naive[last][1] / 15)
    claim("the fused operator is faster than the naive form", race["fused"][last][0] < race["naive"][last][0])

# %% [markdown]
# The same numbers, in less than a fifteenth of the memory at 8,192 positions, and in no more time. But the time still
# grows like $n^2$: nothing was left out.
#
# This is the idea of **FlashAttention** (Dao et al. 2022), and on a GPU it is *faster*, too. A GPU computes in a fast
# memory on the chip (SRAM), and everything large lives in a slower one beside it (HBM): on an A100, 192 KB for each
# group of units against 40 GB. The naive form writes $S$ and $A$ out and reads them back. Tiles stay on the chip: while
# a block of $b$ queries stays there, all keys and values stream past. Counted in numbers moved:
#
# $$\underbrace{4n^2 + 4nd}_{\text{naive}} \qquad\qquad
# \underbrace{2nd + 2nd \cdot \tfrac{n}{b}}_{\text{tiled}}$$

# %%
n, d = 8192, 64
on_chip = 192 * 1024 // 2  # numbers of 16 bits
b = on_chip // (4 * d)  # room for queries, outputs, keys and values
moved = {"naive": 4 * n**2 + 4 * n * d, "tiled": 2 * n * d + 2 * n * d * n / b}
print({name: f"{numbers / 1e6:.0f} million" for name, numbers in moved.items()}, f"with blocks of {b} queries")

# %% claims
claim("about eleven times less is moved", 10 < moved["naive"] / moved["tiled"] < 13)

# %% [markdown]
# More than ten times fewer numbers travel, and that is where the time went. (Your function, made of separate torch
# operations, still writes every tile's scores to the main memory. The gain needs one program for everything, which is
# what *fused* means.)
#
# ## 3 · Cheaper, and different
#
# If $n^2$ scores are too many even to compute, some pairs must go. The simplest choice is **local** attention: each
# position sees the last $w$ positions, its own included. (`window_mask` of notebook 2, made causal.) The wrong way to
# save with it: make all scores, then hide most of them. The right way computes only what is kept. Cut the sequence into
# blocks of $w$; then the keys that a query may see lie in its own block and the one before:


# %%
def local_attention(q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
    """Each query sees the last `window` keys, its own included. q, k, v: (n, d), n a multiple of window."""
    q, k, v = (x.unflatten(0, (-1, window)) for x in (q, k, v))  # (blocks, window, d)
    k, v = (torch.cat([F.pad(x, (0, 0, 0, 0, 1, 0))[:-1], x], dim=1) for x in (k, v))  # (blocks, 2 · window, d)
    scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])  # (blocks, window, 2 · window)
    distance = window + torch.arange(window)[:, None] - torch.arange(2 * window)  # from query to key
    allowed = ((distance >= 0) & (distance < window)).repeat(len(q), 1, 1)
    allowed[0, :, :window] = False  # before the first block there is nothing
    return (scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1) @ v).flatten(0, 1)


n, window = 2048, 32
q, k, v = new_qkv(n)
near = window_mask(n, window - 1) & causal_mask(n)
hidden, blocks = cost(masked_attention, q, k, v, near), cost(local_attention, q, k, v, window)
gap = (masked_attention(q, k, v, near)[0] - local_attention(q, k, v, window)).abs().max().item()
print(f"allowed pairs: {near.sum():,} of {n * n:,}; largest difference {gap:.1e}")
print(f"all scores, then a mask: {hidden[1]:6.1f} MB; only the blocks: {blocks[1]:5.1f} MB")

# %% claims
claim("masking and blocks agree", gap < 1e-5)
claim("blocks need less than a fifth of the memory", blocks[1] < 0.2 * hidden[1])

# %% [markdown]
# A mask alone saves nothing. And locality has its own price: after $L$ layers of window $w$ a position has received
# information from the last $L(w{-}1)$ ones and from no others. **{{term sparse attention|Sparse Transformers}}** (Child
# et al. 2019) reach further with few pairs: position $i$ sees the last $s$ positions *and*, before them, every $s$-th
# one.
#
# $$i \text{ sees } j \iff 0 \le i - j \quad\text{and}\quad \big(i - j < s \;\text{ or }\; (i - j) \bmod s = 0\big)$$
#
# That is at most $s + n/s$ keys per query. For $s = \sqrt n$ there are fewer than $2n\sqrt n$ pairs.
#
# {{exercise strided_mask}}


# %% exercise strided_mask
def strided_mask(length: int, stride: int) -> Tensor:
    """Which keys a query may see: the last `stride` positions, its own included, and before them every stride-th one.

    That is, query i sees key j ≤ i if i - j is less than `stride` or a multiple of it.

    Returns: (length, length), True where attention is allowed.
    """
    ### BEGIN SOLUTION
    positions = torch.arange(length)
    distance = positions[:, None] - positions[None, :]  # (query, key)
    near = distance < stride
    far = distance % stride == 0
    return (distance >= 0) & (near | far)
    ### END SOLUTION


# %% check strided_mask
check(strided_mask)

# %% figure Who reaches whom through 1, 2 and 3 layers: a local window and your strided mask
own_strided = yours("strided_mask", strided_mask)
n, s = 36, 6
sparse = {"local, 6 positions": window_mask(n, s - 1) & causal_mask(n), "strided, 6": own_strided(n, s)}
figure, axes = plt.subplots(2, 4, figsize=(10.5, 5.4))
reached = {}
for line, (name, mask) in zip(axes, sparse.items()):
    seen = torch.eye(n)
    for layers, ax in zip((1, 2, 3), line):
        seen = (mask.float() @ seen > 0).float()
        reached[name, layers] = seen.sum().item() / causal_mask(n).sum().item()
        title = f"{name}, {layers} layer{'s' * (layers > 1)}: {reached[name, layers]:.0%}"
        show_matrix(seen, title, rows="output", columns="input", numbers=False, limits=(0, 1), ax=ax)
        ax.set_title(title, fontsize=9)
    place = 27
    picture = mask[place].float().reshape(6, 6)
    picture[place // 6, place % 6] = 0.5
    show_matrix(picture, "", rows="row of pixels", columns="column", numbers=False, limits=(0, 1), ax=line[3])
    line[3].set_title("what the grey pixel sees of 6 × 6", fontsize=9)
plt.show()
for n in (64, 1024, 4096):
    s = math.isqrt(n)
    pairs = own_strided(n, s).sum().item()
    print(f"n = {n:4}, stride {s:2}: {pairs:7,} pairs, 2n√n = {2 * n * s:7,}, all causal pairs {n * (n + 1) // 2:9,}")

# %% claims
claim("two strided layers reach everything", reached["strided, 6", 2] == 1)
claim("three local ones less than three quarters", reached["local, 6 positions", 3] < 0.75)
claim("one strided layer allows less than half of the pairs", reached["strided, 6", 1] < 0.5)
claim("fewer than 2n√n", pairs < 2 * n * s)
claim("at 4,096 a twentieth of all causal pairs or less", pairs < n * (n + 1) / 2 / 20)

# %% [markdown]
# Two strided layers reach everything: go back in strides, then the rest. The right-hand pictures show what such a mask
# *means*. If the sequence is an image read row by row and $s$ is its width, each pixel sees the pixels to its left, the
# end of the row above, and its column upwards. To choose who may see whom is to choose what you believe to be related.
# The choice is not learned: a pair that is left out can only meet in a higher layer.
#
# ### Linear attention
#
# {{term linear attention|Another idea}}: keep all pairs, give up the softmax. If the weight of a pair is a product of
# *features*, $\varphi(q_i) \cdot \varphi(k_j)$, then the brackets can be moved:
#
# $$O = \frac{\big(\varphi(Q)\,\varphi(K)^\top\big)\,V}{\ldots}
# = \frac{\varphi(Q)\,\big(\varphi(K)^\top V\big)}{\varphi(Q)\, \sum_j \varphi(k_j)}$$
#
# On the left there is an $n \times n$ matrix, on the right a $d_k \times d_v$ matrix, the same for all queries.
# Katharopoulos et al. (2020) use $\varphi(x) = \operatorname{elu}(x) + 1$, which is always positive. If the attention
# is causal, query $i$ may use only the keys up to $i$, so the sums grow along the sequence:
#
# $$S_i = S_{i-1} + \varphi(k_i)\, v_i^\top \qquad z_i = z_{i-1} + \varphi(k_i) \qquad
# o_i = \frac{\varphi(q_i)^\top S_i}{\varphi(q_i)^\top z_i}$$
#
# That is a {{term recurrent network}}: a state of fixed size, updated once per position.
#
# {{exercise linear_attention}}


# %% exercise linear_attention
def linear_attention(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """Attention without a softmax: the weight of key j for query i is proportional to φ(q_i) · φ(k_j).

    φ(x) = elu(x) + 1 is positive; the weights of a query are divided by their sum, and no score is scaled.
    causal: query i attends to keys 0 to i only, by a running sum over the positions (then n_q = n_k).

    q: (…, n_q, d_k); k: (…, n_k, d_k); v: (…, n_k, d_v). Returns: (…, n_q, d_v).
    """
    ### BEGIN SOLUTION
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if not causal:
        state = k.transpose(-2, -1) @ v  # (…, d_k, d_v)
        total = k.sum(dim=-2)  # (…, d_k)
        return (q @ state) / (q @ total[..., None])
    state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])  # (…, d_k, d_v)
    total = k.new_zeros(*k.shape[:-2], k.shape[-1])  # (…, d_k)
    outputs = []
    for i in range(q.shape[-2]):
        state = state + k[..., i, :, None] * v[..., i, None, :]
        total = total + k[..., i, :]
        query = q[..., i, None, :]  # (…, 1, d_k)
        outputs += [(query @ state) / (query @ total[..., None])]  # (…, 1, d_v)
    return torch.cat(outputs, dim=-2)
    ### END SOLUTION


# %% check linear_attention
check(linear_attention)

# %% [markdown]
# Does it matter where the brackets are, and are the matrix product and the RNN the same function?

# %%
own_linear = yours("linear_attention", linear_attention)
q, k, v = new_qkv(LENGTHS[-1])
phi_q, phi_k = F.elu(q) + 1, F.elu(k) + 1
large, small = cost(lambda: (phi_q @ phi_k.T) @ v), cost(lambda: phi_q @ (phi_k.T @ v))
print(f"n = {len(q):,}: (φ(Q) φ(K)ᵀ) V takes {large[1]:.1f} MB, φ(Q) (φ(K)ᵀ V) {small[1]:.1f} MB")
half = len(q) // 2
linear = {n: cost(own_linear, q[:n], k[:n], v[:n], False) for n in (half, len(q))}
print(f"yours: {linear[half][1]:.1f} MB for n = {half:,}, {linear[len(q)][1]:.1f} MB for n = {len(q):,}")
weights = (phi_q[:50] @ phi_k[:50].T).tril()  # the causal form, by a matrix
by_matrix = weights / weights.sum(dim=-1, keepdim=True) @ v[:50]
as_rnn = (own_linear(q[:50], k[:50], v[:50], True) - by_matrix).abs().max().item()
print(f"the RNN and the masked matrix differ by {as_rnn:.0e}")

# %% claims
claim("the brackets save the matrix", small[1] < 0.2 * large[1])
claim("the memory grows like n", 1.8 < linear[len(q)][1] / linear[half][1] < 2.2)
claim("the RNN is the same function", as_rnn < 1e-5)

# %% [markdown]
# So it is the same function, and its cost grows like $n$. What is lost? Attention can look one thing up among many. We
# store $m$ pairs of a random key and one of 8 values, ask with each key, and take the largest entry of the output as
# the answer.


# %%


def share_found(attend: Callable[[Tensor, Tensor, Tensor], Tensor], stored: int, d_k: int = 32) -> float:
    """Ask with each of the stored keys. Returns: how often the output points at the right value."""
    keys = 8 * F.normalize(torch.randn(100, stored, d_k), dim=-1)  # (100 memories, stored, d_k)
    values = torch.randint(8, (100, stored))
    return (attend(keys, keys, F.one_hot(values, 8).float()).argmax(dim=-1) == values).double().mean().item()


torch.manual_seed(2)
stored = [2, 4, 8, 16, 32, 64, 128]
found = {
    "softmax": [share_found(lambda *qkv: scaled_dot_product_attention(*qkv)[0], m) for m in stored],
    "linear": [share_found(lambda *qkv: own_linear(*qkv, False), m) for m in stored],
}

# %% figure What each attention finds again, and its weights for the same queries and keys
figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), width_ratios=(1.3, 1, 1))
for (name, shares), marker in zip(found.items(), "os"):
    axes[0].plot(stored, shares, marker + "-", label=name)
axes[0].axhline(1 / 8, color="grey", linestyle=":", label="guessing")
axes[0].set_xscale("log", base=2)
axes[0].set_xticks(stored, [str(m) for m in stored])
axes[0].set(title="Found again (d_k = 32)", xlabel="pairs stored", ylabel="share", ylim=(0, 1.05))
axes[0].legend(loc="lower left")
keys = 8 * F.normalize(torch.randn(12, 32), dim=-1)
features = F.elu(keys) + 1
weights = {"softmax": (keys @ keys.T / math.sqrt(32)).softmax(dim=-1), "linear": features @ features.T}
weights["linear"] = weights["linear"] / weights["linear"].sum(dim=-1, keepdim=True)
for ax, (name, matrix) in zip(axes[1:], weights.items()):
    show_matrix(matrix, f"weights, {name}", numbers=False, limits=(0, 1), colourbar=True, ax=ax)
plt.show()

# %% claims
claim("softmax finds nearly everything", min(found["softmax"]) > 0.95)
claim("linear finds less the more is stored", found["linear"][0] > found["linear"][3] > found["linear"][-1] + 0.1)
claim("and less than half at 128", found["linear"][-1] < 0.5)
claim("softmax weights are sharp, linear ones are not", weights["softmax"].diag().min() > 5 * weights["linear"].max())

# %% [markdown]
# The softmax is sharp and finds almost everything. The linear weights are flat, and the state, a matrix of fixed size,
# becomes blurred as more is stored. Newer models such as RWKV and Mamba add gates that forget on purpose. But no state
# of fixed size can hold everything.
#
# ### Low rank
#
# **Linformer** (Wang et al. 2020) shortens keys and values from $n$ to $r$ rows by learned matrices $E$ and $F$ of
# shape $r \times n$, so that the scores are $n \times r$:
#
# $$O = \operatorname{softmax}\!\Big(\frac{Q\,(E K)^\top}{\sqrt{d_k}}\Big)\, F V$$
#
# That works as far as the $n \times n$ weights have {{term low rank}}. Do they? We take random queries and keys and ask
# how much of the weights the best matrix of rank $r$ can carry (by the sum of squares, from the singular values).

# %% figure How much of the attention weights fits into rank r
torch.manual_seed(3)
n = 256
ranks = {}
figure, ax = plt.subplots(figsize=(6.5, 3))
for (name, scale), style in zip({"soft": 0.3, "sharper": 1.0, "sharp": 3.0}.items(), ("-", "--", "-.")):
    q, k, _ = new_qkv(n, 32)
    singular = torch.linalg.svdvals((scale * q @ k.T / math.sqrt(32)).softmax(dim=-1))
    carried = singular.square().cumsum(0) / singular.square().sum()
    ranks[name] = int((carried < 0.9).sum()) + 1
    ax.plot(range(1, n + 1), carried, style, label=f"{name}: 90 % needs rank {ranks[name]}")
ax.axhline(0.9, color="grey", linestyle=":", linewidth=1)
ax.set(title=f"Weights of {n} × {n} in rank r", xlabel="r", ylabel="share of the squares", xscale="log", ylim=(0, 1.02))
ax.legend(loc="lower right", fontsize=8)
plt.show()

# %% claims
claim("the sharper, the higher the rank", ranks["soft"] < ranks["sharper"] < ranks["sharp"])
claim("soft weights fit into a small rank", ranks["soft"] < 0.05 * n)
claim("sharp ones need more than d_k", ranks["sharp"] > 2 * 32)

# %% [markdown]
# Soft weights need a very small rank, sharp ones more than twice $d_k = 32$. Besides, $E$ has a fixed length and mixes
# all positions, so a causal model cannot use it as it is. The exact tiles change no result, so every trained model can
# use them. All the savings of this section change the result, so a model has to be trained with them.
#
# ## 4 · Further back
#
# A model that reads at most $n$ tokens at once meets a text in segments, and at the beginning of each it has forgotten
# everything. **{{term Transformer-XL}}** (Dai et al. 2019) keeps, for every layer, the vectors of the previous segment
# as a {{term memory}} $M$. Keys and values come from both, queries from the new segment $X$:
#
# $$Q = X W^Q \qquad K = [\,\operatorname{stop}(M);\, X\,]\, W^K \qquad V = [\,\operatorname{stop}(M);\, X\,]\, W^V$$
#
# $\operatorname{stop}$ cuts the gradient (`detach`): what was computed for the last segment is used, not trained
# through. So the cost of a step does not grow with the text. (With RNNs the same trick is called *truncated
# backpropagation through time*.) Positions have to be relative, as notebook 3 showed; here there are none.
#
# {{exercise segment_memory}}


# %% exercise segment_memory
def segment_memory(
    segment: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, keep: int
) -> tuple[Tensor, Tensor]:
    """Causal attention of one segment of a long text, which also sees what was kept of the segments before.

    Queries come from the segment; keys and values from the memory and the segment, in this order. Position i of the
    segment sees the whole memory and positions 0 to i of the segment. Scores are divided by √d_k. No gradient flows
    into the memory, nor out of the memory that is returned.

    segment: (batch, n, d_model); memory: (batch, m, d_model), m may be 0; w_q, w_k: (d_model, d_k);
    w_v: (d_model, d_v). Returns: output (batch, n, d_v), and the new memory: the last `keep` vectors of memory and
    segment together (all of them if there are fewer; keep ≥ 1).
    """
    ### BEGIN SOLUTION
    memory = memory.detach()
    context = torch.cat([memory, segment], dim=1)  # (batch, m + n, d_model)
    q = segment @ w_q  # (batch, n, d_k)
    k = context @ w_k  # (batch, m + n, d_k)
    v = context @ w_v  # (batch, m + n, d_v)
    n, m = segment.shape[1], memory.shape[1]
    queries = m + torch.arange(n, device=segment.device)  # the place of each query in the context
    keys = torch.arange(m + n, device=segment.device)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (batch, n, m + n)
    scores = scores.masked_fill(keys[None, :] > queries[:, None], -torch.inf)
    output = scores.softmax(dim=-1) @ v  # (batch, n, d_v)
    return output, context[:, -keep:].detach()
    ### END SOLUTION


# %% check segment_memory
check(segment_memory)

# %% [markdown]
# How far back does such a model look? We stack layers, read a text of 6 segments with 8 tokens each, and ask the very
# last output two questions. *Felt:* which inputs change it when we change them? *Trained:* with respect to which inputs
# does it have a gradient?

# %%
own_segments = yours("segment_memory", segment_memory)
torch.manual_seed(4)
SEGMENT, d = 8, 16
all_weights = [[0.25 * torch.randn(d, d, dtype=torch.float64) for _ in range(3)] for _ in range(4)]


def read_in_segments(text: Tensor, layers: int, keep: int) -> Tensor:
    """text: (batch, time, d). Returns: the output at the last position, (batch, d)."""
    memories = [text[:, :0]] * layers
    for x in text.split(SEGMENT, dim=1):
        for layer in range(layers):
            moved, memories[layer] = own_segments(x, memories[layer], *all_weights[layer], keep)
            x = x + moved
    return x[:, -1]


text = torch.randn(1, 6 * SEGMENT, d, dtype=torch.float64)
felt, trained = {}, {}
for layers in (1, 2, 3, 4):
    changed = text.repeat(6 * SEGMENT, 1, 1) + torch.eye(6 * SEGMENT, dtype=torch.float64)[:, :, None]  # one token each
    moved = read_in_segments(changed, layers, SEGMENT) - read_in_segments(text, layers, SEGMENT)
    felt[layers] = moved.abs().amax(dim=-1) > 1e-12  # (time,)
    leaf = text.clone().requires_grad_()
    read_in_segments(leaf, layers, SEGMENT).sum().backward()
    trained[layers] = leaf.grad[0].abs().amax(dim=-1) > 0
    print(f"layers: {layers}   tokens felt: {felt[layers].sum()}   with a gradient: {trained[layers].sum()}")

# %% figure What the last output feels, and through what it is trained
picture = torch.stack([felt[layers].float() + trained[layers].float() for layers in felt]) / 2
figure, ax = plt.subplots(figsize=(9, 2.2))
show_matrix(
    picture, "dark blue: not seen · grey: felt · yellow: felt and trained", rows="layers", columns="token",
    row_names=list("1234"), numbers=False, limits=(0, 1), ax=ax,
)  # fmt: skip
for edge in range(SEGMENT, 6 * SEGMENT, SEGMENT):
    ax.axvline(edge - 0.5, color="white", linewidth=1.5)
plt.show()

# %% claims
claim("each layer reaches one segment further back", [int(felt[x].sum()) for x in felt] == [16, 24, 32, 40])
claim("gradients stay in the last segment", [int(trained[x].sum()) for x in trained] == [8, 8, 8, 8])

# %% [markdown]
# Each layer reaches one segment further back, because the memory of layer 2 was made by layer 1 *with its own memory*.
# Gradients stay in the last segment. So the model can use what is four segments away, but it never gets a gradient that
# says: "you should have written *that* down".
#
# ## 5 · Serving: memory in pages
#
# A model that writes keeps the keys and values of every earlier token (the {{term cache}} of notebook 9):
#
# $$\text{bytes per token} = 2 \cdot \text{layers} \cdot d_\text{model} \cdot \text{bytes per number}$$
#
# For GPT-2 XL in 16 bits that is $2 \cdot 48 \cdot 1600 \cdot 2$ bytes, 307 KB for each token of each user. Nobody
# knows beforehand how long an answer will be. The simple way **reserves** the longest length allowed, in one piece.
# Even if we knew each length, pieces of different sizes would leave gaps where nothing fits. We serve short and long
# answers in a memory of 2,048 tokens:

# %%
SIZE, LONGEST, STEPS = 2048, 256, 120 if FAST else 400
lengths = serving.answer_lengths(4000, LONGEST, mean=40, seed=1)
served = {
    "reserve 256": serving.serve(serving.Reserved(SIZE, lambda sequence: LONGEST), lengths, STEPS),
    "lengths known": serving.serve(serving.Reserved(SIZE, lambda sequence: lengths[int(sequence)]), lengths, STEPS),
}


def used(service: serving.Service) -> float:
    """The share of the memory that holds tokens, on average, once everything is running."""
    late = service.held[STEPS // 4 :]
    return sum(late) / len(late) / SIZE


print("lengths of the first answers:", lengths[:12], f"mean {sum(lengths) / len(lengths):.0f}")
for name, service in served.items():
    print(f"{name:14} {used(service):4.0%} of the memory holds tokens, {service.finished:3} answers finished")

# %% claims
claim("307 KB for each token", 2 * 48 * 1600 * 2 == 307_200)
claim("less than a quarter holds tokens", used(served["reserve 256"]) < 0.25)
claim("if the lengths were known, less than two thirds", used(served["lengths known"]) < 0.66)

# %% [markdown]
# Operating systems solved this long ago, with pages ({{term paged memory}}). **PagedAttention** (Kwon et al. 2023) cuts
# the memory into **blocks**. A sequence gets one when it needs one, wherever it is, and a *block table* remembers
# where:
#
# $$\text{token } t \;\mapsto\; \big(\, \text{blocks}\big[\lfloor t / \text{block size} \rfloor\big],\;
# t \bmod \text{block size} \,\big)$$
#
# {{exercise BlockTable}}


# %% exercise BlockTable
class BlockTable:
    """Where the keys and values of each sequence lie, in a memory of `num_blocks` blocks with `block_size` places each.

    A sequence gets its blocks one at a time, when its last one is full, and they may lie anywhere. Of the free blocks,
    the one with the smallest number is taken. Blocks and places in a block are counted from 0.
    """

    def __init__(self, num_blocks: int, block_size: int):
        ### BEGIN SOLUTION
        self.block_size = block_size
        self.free_blocks = set(range(num_blocks))
        self.blocks: dict[str, list[int]] = {}  # of each sequence, in the order of its tokens
        self.lengths: dict[str, int] = {}  # of each sequence, in tokens
        ### END SOLUTION

    def append(self, sequence: str) -> tuple[int, int]:
        """Make room for the next token of a sequence. A name that is not known yet begins a new sequence.

        Returns: (block, offset), where its key and value go. Raises MemoryError if it needs a block and none is free;
        then nothing has changed.
        """
        ### BEGIN SOLUTION
        length = self.lengths.get(sequence, 0)
        if length % self.block_size == 0:
            if not self.free_blocks:
                raise MemoryError("no free block")
            block = min(self.free_blocks)
            self.free_blocks.remove(block)
            self.blocks.setdefault(sequence, []).append(block)
        self.lengths[sequence] = length + 1
        return self.lookup(sequence, length)
        ### END SOLUTION

    def lookup(self, sequence: str, position: int) -> tuple[int, int]:
        """(block, offset) of the token at this position of a sequence, for a position that has been appended."""
        ### BEGIN SOLUTION
        block = self.blocks[sequence][position // self.block_size]
        return block, position % self.block_size
        ### END SOLUTION

    def free(self, sequence: str) -> None:
        """The sequence has ended: all of its blocks are free again, and its name is not known any more."""
        ### BEGIN SOLUTION
        self.free_blocks.update(self.blocks.pop(sequence))
        del self.lengths[sequence]
        ### END SOLUTION


# %% check BlockTable
check(BlockTable)

# %% figure The memory at the end: each colour is a sequence, grey holds nothing
Table = yours("BlockTable", BlockTable)
for size in (8, 16):
    served[f"blocks of {size}"] = serving.serve(serving.Paged(Table(SIZE // size, size), size), lengths, STEPS)
figure, axes = plt.subplots(1, 4, figsize=(11, 3), sharey=True)
for ax, (name, service) in zip(axes, served.items()):
    picture = torch.full((SIZE,), torch.nan)
    for i, places in enumerate(service.places.values()):
        picture[places] = i % 7
    colours = ListedColormap(COLOURS[:7]).with_extremes(bad="#E8E8E8")
    ax.imshow(picture.reshape(64, 32).numpy(), cmap=colours, vmin=0, vmax=6, aspect="auto", interpolation="nearest")
    ax.set_title(f"{name}\n{used(service):.0%} used, {service.finished} answers", fontsize=9)
    ax.set(xlabel="place")
axes[0].set_ylabel("row of 32 places")
plt.show()

# %% claims
paged = served["blocks of 16"]
claim("blocks of 16 use more than two thirds", used(paged) > 0.66)
claim("smaller blocks use more", used(served["blocks of 8"]) > used(paged))
claim("at least three times as much as reserving", used(paged) > 3 * used(served["reserve 256"]))
if not FAST:
    claim("more than four times as many answers", paged.finished > 4 * served["reserve 256"].finished)

# %% [markdown]
# Reserving leaves most places empty (*internal* fragmentation); known lengths leave gaps in between (*external*). With
# blocks only the last one of each sequence is partly empty, and the same memory serves several times as many users.
# When it is full, the newest sequence gives up its blocks and starts again later. The price: keys and values lie
# scattered, so the attention has to look up where they are, tile by tile.
#
# ## 6 · Saving in training
#
# **{{term half precision|Half precision}}** halves the memory of every matrix. Notebook 8 showed where it goes wrong;
# here is why. A floating point number has bits for its *range* and bits for its *digits*.

# %%
kinds = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
added = {}
print("           largest   smallest   after 1 comes   e^12        10,000 times + 2.5")
for name, kind in kinds.items():
    info, loss, total = torch.finfo(kind), torch.tensor(2.5, dtype=kind), torch.tensor(0.0, dtype=kind)
    for _ in range(10_000):
        total = total + loss
    added[name] = total.item()
    big = torch.tensor(12.0, dtype=kind).exp().item()
    print(f"{name:9} {info.max:9.1e} {info.tiny:9.1e}    1 + {info.eps:.1e}   {big:9.1f}   {total:9.0f}")

# %% claims
claim("the range of bfloat16 is that of float32", torch.finfo(torch.bfloat16).max > 3e38)
claim("e^12 is too large for float16", math.isinf(torch.tensor(12.0).half().exp().item()))
claim("float32 adds up to 25,000", added["float32"] == 25_000)
claim("the sum stands still at 8,192 in float16", added["float16"] == 8192)
claim("and at 1,024 in bfloat16", added["bfloat16"] == 1024)

# %% [markdown]
# float16 has no room for $e^{12}$. bfloat16 has the range of float32, but few digits. In both, a sum stops growing: at
# 8,192 or at 1,024, adding a loss of 2.5 is less than half of the step to the next number, and changes nothing. So
# matrix products are done in 16 bits, and the loss, the softmax and other sums in 32. In torch, `autocast` keeps that
# list for you.
#
# **Gradient accumulation** saves the memory of a large batch: run small batches one after the other, and add up their
# gradients before the step. You wrote it in notebook 8 (`accumulate_gradients`), with the right weights for unequal
# batches.
#
# **{{term checkpointing|Checkpointing}}** saves the memory of a deep model. The backward pass needs every intermediate
# result, but they can be computed *again*:
#
# - forward: run the section without recording anything, keep only its input $x$;
# - backward: get the gradient $g$ of the section's output; run the section again from $x$, now with recording; call
#   `backward(g)` on the result. That fills `.grad` of $x$ and of the section's parameters.
#
# $$y = f(x) \qquad g = \frac{\partial \mathcal L}{\partial y} \qquad
# \frac{\partial \mathcal L}{\partial x} = g\,\frac{\partial f(x)}{\partial x} \qquad
# \frac{\partial \mathcal L}{\partial \theta} = g\,\frac{\partial f(x)}{\partial \theta}$$
#
# A `torch.autograd.Function` has a `forward`, in which torch records nothing, and a `backward`, which you write;
# `ctx.save_for_backward(x)` and `ctx.saved_tensors` carry `x` from one to the other, and in `backward`,
# `torch.enable_grad()` turns the recording on again.
#
# {{exercise checkpointed}}


# %% exercise checkpointed
def checkpointed(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """function(x), with nothing but x kept for the backward pass: there the function is computed a second time.

    The function is called once here, and once more in the backward pass. The gradients of x, and of all parameters
    that the function uses, are those of function(x).

    x: a tensor that requires gradients. Returns: what the function returns, a tensor.
    """
    ### BEGIN SOLUTION

    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x: Tensor) -> Tensor:  # torch records no gradients in here
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx, slope: Tensor) -> Tensor | None:
            """slope: the gradient of the loss with respect to the result. Returns: that with respect to x."""
            (x,) = ctx.saved_tensors
            x = x.detach().requires_grad_()
            with torch.enable_grad():
                result = function(x)
            result.backward(slope)  # fills .grad of the parameters, and of x
            return x.grad

    return Recompute.apply(x)
    ### END SOLUTION


# %% check checkpointed
check(checkpointed)

# %% [markdown]
# How long should a section be? Sections of one layer keep $N$ inputs; one section of $N$ layers keeps one input and has
# everything in memory in the backward pass after all. If a layer's own results weigh as much as $c$ inputs, then with
# sections of $s$ layers
#
# $$\frac{N}{s} + c\,s \qquad\text{are kept at the worst moment, fewest for}\qquad s = \sqrt{N / c}$$
#
# We try a stack of $N = 16$ layers, each $x + W_2 \operatorname{relu}(W_1 x)$, of which torch keeps about $c = 3$
# inputs' worth.

# %%
own_checkpointed = yours("checkpointed", checkpointed)
torch.manual_seed(5)
N, d = 16, 64
blocks = [nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d)).to(device) for _ in range(N)]
x = torch.randn(2000, d, device=device)
passes = 0


def section(x: Tensor, first: int, size: int) -> Tensor:
    global passes
    for block in blocks[first : first + size]:
        x = x + block(x)
        passes += 1
    return x


def train_once(size: int | None) -> tuple[int, Tensor]:
    """One forward and backward pass. Returns: how many layers were run forward, and the gradient of x."""
    global passes
    passes = 0
    h = leaf = x.clone().requires_grad_()
    for first in range(0, N, size or N):
        run = lambda h, first=first: section(h, first, size or N)
        h = own_checkpointed(run, h) if size else run(h)
    h.square().mean().backward()
    return passes, leaf.grad


checkpoints = {size: (*cost(train_once, size), *train_once(size)) for size in (None, 1, 2, 4, 8, 16)}
everything = checkpoints[None]
for size, (seconds, megabytes, layers, gradient) in checkpoints.items():
    name = f"sections of {size:2}" if size else "everything kept"
    same = torch.allclose(gradient, everything[3], atol=1e-9)
    print(f"{name:15} {megabytes:5.1f} MB at most, {1e3 * seconds:4.0f} ms of CPU, {layers} layers run forward, "
        f"same gradient: {same}")  # fmt: skip

# %% figure Memory by the length of a section
sizes = [size for size in checkpoints if size]
figure, ax = plt.subplots(figsize=(6.5, 3))
ax.plot(sizes, [checkpoints[size][1] for size in sizes], "o-", label="your checkpointed, 32 layers run forward")
ax.axhline(everything[1], color=COLOURS[1], linestyle="--", label="everything kept, 16 layers run forward")
ax.set_xscale("log", base=2)
ax.set_xticks(sizes, [str(size) for size in sizes])
ax.set(title="Forward and backward through 16 layers", xlabel="layers in a section", ylabel="megabytes at most")
ax.set_ylim(0, 1.35 * everything[1])
ax.legend(loc="upper left", fontsize=8)
plt.show()

# %% claims
claim("less than half of the memory", checkpoints[2][1] < 0.5 * everything[1])
claim("one long section saves little", checkpoints[16][1] > 0.75 * everything[1])
claim("2 is best", checkpoints[2][1] == min(checkpoints[size][1] for size in sizes))
claim("a layer keeps about three inputs' worth", 2.5 < everything[1] / N / (x.numel() * 4e-6) < 4)
claim("every layer runs forward twice", all(checkpoints[size][2] == 2 * everything[2] for size in sizes))
claim("the gradients agree", all(torch.allclose(c[3], everything[3], atol=1e-9) for c in checkpoints.values()))
if not FAST:
    slower = sum(checkpoints[size][0] for size in sizes) / len(sizes) / everything[0]
    claim("it takes more time, but not twice as much", 1 < slower < 2)

# %% [markdown]
# The gradient is the same, every layer runs forward twice, and the memory is smallest near $\sqrt{16 / 3} \approx 2$.
# The price is time. It does not double, because a backward pass takes longer than a forward pass.
#
# Both ideas meet in FlashAttention. If torch records your `tiled_attention`, it keeps every tile for the backward pass,
# and the $n^2$ is back. FlashAttention's backward pass computes the tiles again, as here, one block of queries at a
# time:

# %%
n = 1024 if FAST else 2048
q, k, v = (x.requires_grad_() for x in new_qkv(n))
attend = lambda queries: own_tiled(queries, k, v, 128, False)
ways = {
    "naive": lambda: scaled_dot_product_attention(q, k, v)[0],
    "tiled": lambda: attend(q),
    "tiled, checkpointed": lambda: torch.cat([own_checkpointed(attend, rows) for rows in q.split(128)]),
    "fused": lambda: F.scaled_dot_product_attention(q[None, None], k[None, None], v[None, None]),
}
backward = {name: cost(lambda attend: attend().square().sum().backward(), way)[1] for name, way in ways.items()}
for name, megabytes in backward.items():
    print(f"forward and backward, n = {n}, {name:20} {megabytes:6.1f} MB")

# %% claims
claim("recorded tiles cost as much as the naive form", backward["tiled"] > 0.8 * backward["naive"])
claim("checkpointed tiles a fraction", backward["tiled, checkpointed"] < 0.5 * backward["naive"])
if not FAST:
    claim("less than a quarter at 2,048", backward["tiled, checkpointed"] < 0.25 * backward["naive"])

# %% [markdown]
# ## 7 · An RNN, a CNN and attention on the same task
#
# Is attention worth its price? Here is a task that needs a long memory: 64 symbols, nearly all of them noise (·).
# Somewhere the sequence says that *a is 3* (one symbol, `a3`), and the last symbol asks: `a?`. The hard version says
# six things and asks for one of them. Guessing is right in 25 % of cases.
#
# Four small models of width 32 read it: a plain RNN, a GRU (an RNN with gates, which let a state pass unchanged), three
# convolutions over 9 positions, and two layers of attention with one head. Each trains for 400 steps.

# %%
for things in (1, 6):
    print(long_range.written_out(long_range.made_sequences(1, 36, things, seed=things)[0][0]))
makers = {
    "RNN": lambda: long_range.Recurrent(32, nn.RNN),
    "GRU": lambda: long_range.Recurrent(32, nn.GRU),
    "CNN": lambda: long_range.Convolutional(32, num_layers=3, width=9),
    "attention": lambda: long_range.Attentive(32, num_layers=2),
}
right, by_distance = {}, {}
for things in (1, 6):
    for name, make in makers.items():
        torch.manual_seed(1)
        model = make().to(device)
        steps = bar(range(5 if FAST else 400), f"{name}, {things} said")
        long_range.train_reader(model, things, steps)
        measured = long_range.right_by_distance(model, things, sequences=500 if FAST else 4000)
        right[name, things], by_distance[name, things] = measured

# %% figure Right answers by how long ago it was said
figure, axes = plt.subplots(1, 2, figsize=(10, 3.2), sharey=True)
middles = [(eighth + 0.5) * 63 / 8 for eighth in range(8)]
for ax, things in zip(axes, (1, 6)):
    for (name, marker), colour in zip(zip(makers, "os^D"), COLOURS):
        ax.plot(middles, by_distance[name, things], marker + "-", color=colour, markersize=5, label=name)
    ax.axvline(24, color=COLOURS[2], linestyle=":", linewidth=1.2)
    ax.axhline(0.25, color="grey", linestyle="--", linewidth=1, label="guessing")
    ax.set(title=f"{things} thing{'s' * (things > 1)} said", xlabel="steps since it was said", ylim=(0, 1.05))
axes[0].set_ylabel("share right")
axes[0].annotate("reach of the CNN", (24, 0.06), xytext=(26, 0.04), fontsize=8)
axes[1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
plt.show()

# %% claims
claim("the convolutions reach 24 steps back", long_range.Convolutional(4, 3, 9).reach() == 24)
if not FAST:
    claim("attention is right on both", min(right["attention", 1], right["attention", 6]) > 0.97)
    claim("the GRU keeps one thing", right["GRU", 1] > 0.97)
    claim("but not six", right["GRU", 6] < 0.8)
    claim("the plain RNN fails", max(right["RNN", 1], right["RNN", 6]) < 0.7)
    claim("the CNN is right within its reach", min(by_distance["CNN", 1][:3]) > 0.9)
    claim("and guesses beyond it", max(by_distance["CNN", 1][4:]) < 0.35)

# %% [markdown]
# And now the full comparison. **Path length**: how many operations lie between the answer and the symbol that was said?
# **Steps in sequence** (*waits*): how many must wait for each other, however many processors there are? Time and memory
# are those of one forward and backward pass, for one sequence of 64 and one of 1,024:

# %%
path = {"RNN": "n", "GRU": "n", "CNN": "n / 8", "attention": "1"}
waits = {"RNN": "n", "GRU": "n", "CNN": "3", "attention": "2"}
bill = {}
LONG = 256 if FAST else 1024
print(f"{'':10}{'path':>6}{'waits':>7}{'n = 64':>18}{f'n = {LONG}':>18}{'right: 1, 6 said':>19}")
for name, make in makers.items():
    torch.manual_seed(1)
    model = make().to(device)
    print(f"{name:10}{path[name]:>6}{waits[name]:>7}", end="")
    for n in (64, LONG):
        ids, _, _ = long_range.made_sequences(1, n, 1, seed=0)
        bill[name, n] = cost(lambda model, ids: model(ids).sum().backward(), model, ids.to(device))
        print(f"{1e3 * bill[name, n][0]:7.1f} ms{bill[name, n][1]:5.1f} MB", end="")
    print(f"{right[name, 1]:13.0%},{right[name, 6]:5.0%}")

# %% claims
growth = {name: bill[name, LONG][1] / bill[name, 64][1] for name in makers}
claim("attention's memory grows faster than the length", growth["attention"] > 1.4 * LONG / 64)
claim("the CNN's does not", growth["CNN"] < 1.4 * LONG / 64)
if not FAST:
    claim("at 1,024 attention takes by far the most memory", bill["attention", LONG][1] > 4 * bill["CNN", LONG][1])

# %% [markdown]
# - The plain RNN has not learned it in 400 steps: what was said has to survive up to 63 updates of one state (notebook
#   9 computed how it fades). **Gates** repair that for one thing. To keep six things in one state of 32 numbers, the
#   GRU, too, would need more steps than these.
# - With one thing, the CNN is right within its reach of 24 steps and guesses beyond. With six it has learned nothing in
#   400 steps, not even within its reach. To see further it would need more layers, or gaps between the positions it
#   sees (*dilation*); then a path of about $\log n$ layers is enough.
# - Attention is right everywhere: one step leads to any position, and nothing has to be compressed into a state. It
#   pays with memory, which grows like $n^2$ (here computed the naive way) while the others' grows like $n$.
#
# ## 8 · What limits it?
#
# Bloem (2019) wrote that the Transformer, unlike LSTMs and convolutions, is limited by hardware alone: by how large a
# model fits into the memory, and by how fast data gets through it. A year later GPT-3 was a hundred times as large as
# GPT-2. Two remarks can be added. The amount of good text is a limit, too (Hoffmann et al. 2022). And when a model
# *writes*, arithmetic is not the limit at all: for one new token, every weight is read once and used twice (one
# multiplication, one addition).

# %%
weights, bytes_per_second, operations_per_second = 1.56e9, 1.5e12, 312e12  # GPT-2 XL; an A100, in 16 bits
reading, computing = 2 * weights / bytes_per_second, 2 * weights / operations_per_second
print(f"one token: {1e3 * reading:.2f} ms to read the weights, {1e3 * computing:.3f} ms to compute")
print(f"users served at once before computing takes as long as reading: {reading / computing:.0f}")

# %% claims
claim("reading takes about two hundred times as long", 150 < reading / computing < 250)

# %% [markdown]
# Reading takes two hundred times as long. So a server wants many users in one batch, for whom the weights are read only
# once. Each of them needs a cache: that is why section 5 matters.
#
# {{question is_it_linear}}
#
# A colleague writes: "With FlashAttention, attention has become linear, so one million tokens are no problem. And our
# old model with a window of 512 and 4 layers sees everything anyway, since information travels up the layers." What is
# right, and what is wrong? Give numbers, and say which cell of this notebook shows it.

# %% answer is_it_linear 2 [markdown]
# ### BEGIN SOLUTION
# One point: the *memory* is linear in n, the number of scores is not; the time still grows like n² (the race in section
# 2: four times the length, about sixteen times the time). One million tokens are 10¹² scores per head and layer. One
# point: with a window of 512 and 4 layers a position gets information from the last 4 · 511 = 2,044 positions and from
# no others (section 3, the figure of who reaches whom); the strided mask, a memory of segments or linear attention
# reach further, each at its own price.
#
# **Rubric**
#
# - 1 point: memory is linear, time is not: n² scores, with a number and the cell that shows it
# - 1 point: 4 · 511 = 2,044 positions and no further, with the cell that shows it
# ### END SOLUTION

# %% [markdown]
# ## What you can do now
#
# Say what a long sequence costs, compute a softmax and an attention in pieces, choose among cheaper attentions and know
# what each gives up, read a text in segments, keep the cache of many users in pages, and trade time for memory in
# training.
#
# **To read on**: Dao et al. (2022), *FlashAttention* · Milakov and Gimelshein (2018), *Online Normalizer Calculation
# for Softmax* · Child et al. (2019), *Generating Long Sequences with Sparse Transformers* · Katharopoulos et al.
# (2020), *Transformers are RNNs* · Wang et al. (2020), *Linformer* · Dai et al. (2019), *Transformer-XL* · Kwon et al.
# (2023), *Efficient Memory Management for Large Language Model Serving with PagedAttention* · Chen et al. (2016),
# *Training Deep Nets with Sublinear Memory Cost* · Micikevicius et al. (2018), *Mixed Precision Training* · Bloem
# (2019), *Transformers from Scratch*.
