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
# # 3 · Positions: telling attention where a token stands
#
# Attention compares every {{term token}} with every other and never asks where they stand. You will see this for
# yourself, and then build four ways to put the order back in: the sinusoids of the Transformer paper, a learned table,
# rotary positions ({{term RoPE}}) and a penalty on distance ({{term ALiBi}}). At the end you measure which of them
# still work on texts longer than those in training.

# %% setup
import math

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib import check, hint, solution, yours
from course_lib import positions as reference
from course_lib.interactive import position_waves
from course_lib.masks import causal_mask, masked_attention
from course_lib.plotting import COLOURS, show_map, show_matrix, use_course_style
from course_lib.progress_bar import bar
from course_lib.settings import course_device

torch.manual_seed(0)
use_course_style()
device = course_device()

# %% figure Where this notebook is on the map
show_map("03_positions")

# %% [markdown]
# ## 1 · Attention does not see order
#
# Five words, each with a vector of its own. We let them attend to each other twice: once as "the cat is on the mat",
# once as "the mat is on the cat". Watch the vector that comes out for *cat*, and the mean of all outputs.

# %%
words = {word: torch.randn(4) for word in ("the", "cat", "is", "on", "mat")}
sentences = ["the cat is on the mat".split(), "the mat is on the cat".split()]
everything = torch.ones(6, 6, dtype=torch.bool)

cats, means = [], []
for sentence in sentences:
    x = torch.stack([words[word] for word in sentence])  # (time, feature)
    output, _ = masked_attention(x, x, x, everything)
    cats.append(output[sentence.index("cat")])
    means.append(output.mean(dim=0))
    print(" ".join(sentence))
    print("   cat becomes", cats[-1].numpy().round(4), "  mean of all", means[-1].numpy().round(4))

# %% claims
claim("cat becomes the same in both sentences", torch.allclose(*cats, atol=1e-6))
claim("and so does the mean", torch.allclose(*means, atol=1e-6))

# %% [markdown]
# The same numbers, although the cat is under the mat now. Shuffle the inputs, and the outputs are shuffled in the same
# way and otherwise unchanged: attention is {{term equivariance|permutation equivariant}}. More layers do not help,
# because each of them has this property. If the outputs are averaged at the end, as a simple classifier of sentences
# does, even the shuffling disappears: the result is **permutation invariant**. No amount of training can repair that.
#
# A {{term recurrent network}} does not have this problem. It reads one token after another and carries a
# {{term hidden state}} along, and what it reads first passes through more steps than what it reads last. The order of
# the text is the order of the computation, so it needs no positions.
#
# ### With a causal mask, a little order shows
#
# "Attention ignores order" is often said without conditions. It holds if every token sees every other one. It does not
# hold with a {{term causal}} mask. We swap the first two of six tokens and measure how much the output of each *token*
# changes.


# %%
def changes_when_swapped(num_layers: int, causal: bool) -> Tensor:
    """Swap the first two of six tokens: by how much does the output of each token change? (6,)"""
    torch.manual_seed(1)
    x = torch.randn(6, 8, dtype=torch.float64)
    order = [1, 0, 2, 3, 4, 5]
    y = x[order]
    mask = causal_mask(6) if causal else torch.ones(6, 6, dtype=torch.bool)
    for _ in range(num_layers):
        weights = torch.randn(3, 8, 8, dtype=torch.float64) / math.sqrt(8)
        x, y = (z + masked_attention(*(z @ weights), mask)[0] for z in (x, y))
    return (y[order] - x).abs().amax(dim=-1)


print("mask      layers   the two swapped tokens   the last token")
swaps = {(causal, depth): changes_when_swapped(depth, causal) for causal in (False, True) for depth in (1, 2, 3)}
for (causal, depth), change in swaps.items():
    print(f"{'causal' if causal else 'none':8} {depth:>5} {change[0]:>16.2f} {change[1]:>6.2f} {change[-1]:>18.2f}")

# %% claims
claim("without a mask nothing changes", all(swaps[False, depth].max() < 1e-9 for depth in (1, 2, 3)))
claim("with one causal layer the swapped tokens change", bool((swaps[True, 1][:2] > 0.1).all()))
claim("but the last token does not", swaps[True, 1][-1] < 1e-9)
claim("with two layers it does", swaps[True, 2][-1] > 0.05)

# %% [markdown]
# With a causal mask, token 1 sees token 0 but not the other way round. So after a single layer the two swapped tokens
# already carry a trace of who came first. The last token still sees the same set of vectors, in whatever order, and
# does not change. In the second layer it can read the trace. A causal model without positions is not blind but
# short-sighted, and the last section measures by how much.
#
# ## 2 · What should a position look like?
#
# The plan: give each position a vector as wide as those of the tokens, its {{term positional encoding}}, and add it to
# the token that stands there,
#
# $$X_{\text{final}} = X + PE .$$
#
# After that, *cat* at place 1 and *cat* at place 5 are different vectors, and attention can tell them apart. Two
# obvious choices fail. The position number itself (0, 1, 2, …) grows without limit: at position 500 it drowns a token
# whose numbers are about 1. The number divided by the length of the text stays between 0 and 1, but then one step means
# 1/5 in a text of 5 tokens and 1/500 in a text of 500.
#
# Think of a counter instead. Written in binary, the last digit flips at every step, the one before it at every second
# step, the next at every fourth. Fast digits tell neighbours apart, slow digits tell distant regions apart, and no
# digit ever leaves 0 and 1. Sinusoids of many frequencies are the smooth version of the same idea.

# %% figure A binary counter and its smooth version
steps = torch.arange(17)
fine = torch.linspace(0, 16, 400)
figure, ax = plt.subplots(figsize=(8.6, 3.4))
for digit in range(4):
    bottom = 1.5 * (3 - digit)
    period = 2 ** (digit + 1)
    ax.step(steps, bottom + ((steps >> digit) & 1), where="post", color=COLOURS[0], label="binary digit")
    wave = 0.5 - 0.5 * torch.sin(2 * math.pi * fine / period)
    ax.plot(fine, bottom + wave, "--", color=COLOURS[1], label="sine wave")
ax.set(title="a counter and its smooth version", xlabel="position", ylabel="digit, and its period")
ax.set_yticks([0.5, 2, 3.5, 5], ["digit 3: 16", "digit 2: 8", "digit 1: 4", "digit 0: 2"])
ax.set_xlim(0, 16)
ax.legend(*(part[:2] for part in ax.get_legend_handles_labels()), loc="center left", bbox_to_anchor=(1.0, 0.5))
plt.show()

# %% [markdown]
# ## 3 · The sinusoids of the paper
#
# Take the columns in pairs. Pair $i$ has one {{term frequency}}, $10000^{-2i/d_{\text{model}}}$: its first column is
# the sine, its second column the cosine of the *same* angle.
#
# $$PE_{pos,\,2i} = \sin\frac{pos}{10000^{2i/d_{\text{model}}}} \qquad\qquad
# PE_{pos,\,2i+1} = \cos\frac{pos}{10000^{2i/d_{\text{model}}}}$$
#
# Here $d_{\text{model}}$ is the {{term d_model|width}} of the token vectors. Note what $i$ counts: **pairs**, from 0 to
# $d_{\text{model}}/2 - 1$. It is not the number of the column.
#
# By hand, for $d_{\text{model}} = 4$: there are two pairs, and $10000^{0/4} = 1$, $10000^{2/4} = 100$. So a row is
# $\sin(pos), \cos(pos), \sin(pos/100), \cos(pos/100)$. Positions are counted from 0: *cat* stands at position 1.

# %%
for pos, word in enumerate("the cat is".split()):
    row = [math.sin(pos), math.cos(pos), math.sin(pos / 100), math.cos(pos / 100)]
    print(f"{word:>4}, pos {pos}:", "  ".join(f"{value:8.5f}" for value in row))

# %% claims
claim("the row of position 2", [round(value, 4) for value in row] == [0.9093, -0.4161, 0.0200, 0.9998])

# %% [markdown]
# > **Spot the mistake.** A blog computes the second number of position 2 as
# > $\cos(2 / 10000^{1/4}) = \cos(2/\sqrt{10000}) = 0.9998$. There are two mistakes in this line.
#
# <details><summary>Answer</summary>
#
# Column 1 belongs to pair 0, so the exponent is $0/4$ and not $1/4$: the right value is $\cos(2) = -0.4161$. And
# $10000^{1/4}$ is 10, not $\sqrt{10000} = 100$. The whole row is $[0.9093,\ -0.4161,\ 0.0200,\ 0.9998]$, as printed
# above.
#
# </details>
#
# {{exercise sinusoidal_encoding}}
#
# Write the table for `n` positions. Two loops are fine for a start; without loops, multiply a column of positions by a
# row of frequencies. `d_model` may be odd: then the last column is a sine without its cosine. If you get stuck,
# `hint("sinusoidal_encoding")` helps.


# %% exercise sinusoidal_encoding
def sinusoidal_encoding(n: int, d_model: int) -> Tensor:
    """The fixed position vectors of the Transformer paper, one row per position, counted from 0.

    Returns: (n, d_model), interleaved: column 2i is sin(pos / 10000^(2i/d_model)), column 2i+1 its cosine.
    If d_model is odd, the last column is a sine without its cosine.
    """
    ### BEGIN SOLUTION
    positions = torch.arange(n)  # (n,)
    pairs = torch.arange(d_model) // 2  # 0, 0, 1, 1, 2, 2, …
    frequencies = 10000.0 ** (-2 * pairs / d_model)  # (d_model,)
    angles = positions[:, None] * frequencies  # (n, d_model)
    table = angles.sin()
    table[:, 1::2] = angles[:, 1::2].cos()
    return table
    ### END SOLUTION


# %% check sinusoidal_encoding
check(sinusoidal_encoding)

# %% [markdown]
# Much public code computes the frequencies through a logarithm, because
# $10000^{-2i/d} = e^{-\frac{2i}{d}\ln 10000}$. There the frequencies are called `div_term`:

# %%
n, d_model = 5000, 512
div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))  # (d_model/2,)
angles = torch.arange(n)[:, None] * div_term  # (n, d_model/2)
through_logarithm = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)  # (n, d_model)
difference = (through_logarithm - reference.sinusoidal_encoding(n, d_model)).abs().amax(dim=1)
print(f"largest difference, positions 0 to 511: {difference[:512].max():.0e}, all 5000: {difference.max():.0e}")

# %% claims
claim("both spellings agree up to rounding, which grows", difference[:512].max() < 1e-4 < difference.max() < 2e-3)

# %% [markdown]
# The same table, up to rounding. The rounding error grows with the angle, since a float32 has only about seven digits
# for it.
#
# Here is your table for 100 positions and 64 columns. Each row is the vector that is added to one token.

# %% figure The sinusoidal table
table = yours("sinusoidal_encoding", sinusoidal_encoding)(100, 64)
figure, ax = plt.subplots(figsize=(8.6, 3.8))
labels = {"rows": "position", "columns": "dimension"}
show_matrix(table, "the sinusoidal table, d_model = 64", **labels, numbers=False, diverging=True, colourbar=True, ax=ax)
plt.show()
print(f"smallest {table.min():.3f}, largest {table.max():.3f};  row 0: {table[0, :6].tolist()} …")

# %% claims
claim("all values lie in [-1, 1]", table.abs().max() <= 1)
claim("row 0 is 0, 1, 0, 1, …", table[0].tolist() == [0.0, 1.0] * 32)
claim("those columns need thousands of positions for one turn", 2 * math.pi * 10000 ** (44 / 64) > 2000)
claim(
    "from dimension 44 on, sines are near 0 and cosines near 1",
    table[:, 44::2].abs().max() < 0.2 and table[:, 45::2].min() > 0.95,
)

# %% [markdown]
# All values lie between -1 and 1, and row 0 is 0, 1, 0, 1, … The action is on the left. From about dimension 44 on,
# sines stay near 0 and cosines near 1 for all 100 positions: those columns need thousands of positions for one turn.
# (In the paper $d_{\text{model}} = 512$: $i$ runs from 0 to 255, and a row has 512 numbers.)
#
# Do higher dimensions swing faster, as some texts say? Count for yourself. Here are four columns of a narrower table,
# and the **wavelength** of every pair, $2\pi \cdot 10000^{2i/d_{\text{model}}}$ positions.

# %% figure Single columns and their wavelengths
small = reference.sinusoidal_encoding(101, 20)
wavelength = 2 * math.pi * 10000 ** (torch.arange(10) / 10)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), width_ratios=[3, 2])
for column, style in zip((4, 5, 6, 7), ("-", "--", "-", "--")):
    name = f"dim {column} ({'cos' if column % 2 else 'sin'}, pair {column // 2})"
    left.plot(small[:, column], style, color=COLOURS[column // 2 - 2], label=name)
left.set(title="four columns, d_model = 20", xlabel="position", ylabel="value", ylim=(-1.1, 1.9))
left.legend(ncols=2, fontsize=8, loc="upper center")
right.semilogy(wavelength, "o-")
right.axhline(100, color=COLOURS[1], linestyle="--", label="a text of 100 tokens")
right.set(title="wavelengths, d_model = 20", xlabel="pair i", ylabel="positions per turn")
right.legend(fontsize=8)
plt.show()
sign_changes = ((small[:100] >= 0).int().diff(dim=0) != 0).sum(dim=0)
print("sign changes over 100 positions, dims 0 to 7:", sign_changes[:8].tolist())

# %% claims
claim("sign changes become fewer from pair to pair", bool((sign_changes[:8].view(4, 2).sum(dim=1).diff() < 0).all()))

# %% [markdown]
# It is the other way round. **Early** columns are the fast hand of a clock and tell neighbours apart. **Late** columns
# are the slow hand and say roughly in which part of a long text we are.
#
# ## 4 · Unique, smooth, and aware of distance
#
# What do we want from such vectors? First, **no two positions should share one**. Second, **neighbours should be
# similar**, so that what is learned at position 10 is of use at position 11. Both can be measured.

# %%
table = reference.sinusoidal_encoding(5000, 512)
unique = len(table.unique(dim=0))
print("different rows among 5000:", unique)
similar = {}
for a, b in ((10, 11), (10, 20), (10, 110)):
    similar[b] = F.cosine_similarity(table[a], table[b], dim=0).item()
    print(f"cosine similarity of positions {a} and {b}: {similar[b]:.3f}")

one_sine = torch.arange(400, dtype=torch.float64).sin()
gap = (one_sine[:, None] - one_sine).abs() + 9 * torch.eye(400)
a, b = divmod(gap.argmin().item(), 400)
print(f"with a single sine, positions {a} and {b} are only {gap.min():.1e} apart")

# %% claims
claim("all rows differ", unique == 5000)
claim("neighbours are similar, and less so further away", similar[11] > 0.95 and 0.8 > similar[20] > similar[110])
claim("one sine almost repeats", (a, b) == (11, 344) and gap.min() < 1e-6)

# %% [markdown]
# Unique: yes, all 5000. And neighbours are *not* "markedly different", as is sometimes claimed: 10 and 11 point almost
# the same way, and that is the smoothness we wanted. A single sine would not do. It never repeats exactly on whole
# numbers, because a turn takes $2\pi$ positions, which is irrational. But it comes so close that nobody could tell
# 11 from 344.
#
# Third, attention works with {{term dot product|dot products}}. What is the dot product of two position vectors?

# %% figure Dot products of position vectors
figure, (left, right) = plt.subplots(1, 2, figsize=(8.8, 3.2))
dots = table[:100] @ table[:100].T
show_matrix(dots, "PE(a) · PE(b)", rows="position a", columns="position b", numbers=False, colourbar=True, ax=left)
distance = torch.arange(-100, 101)
curves = {here: table[here + distance] @ table[here] for here in (100, 1000)}
for (here, curve), style in zip(curves.items(), ("-", "--")):
    right.plot(distance, curve, style, label=f"around position {here}")
right.set(title="dot product against distance", xlabel="distance", ylabel="PE(pos) · PE(pos + distance)")
right.set_ylim(0, 330)
right.legend(loc="upper center", ncols=2, fontsize=8)
plt.show()

# %% claims
claim("the dot product depends on the distance alone", torch.allclose(curves[100], curves[1000], atol=0.05))
claim("it is largest at distance 0", curves[100].argmax() == 100)

# %% [markdown]
# It depends on the **distance alone** (the two curves coincide), is largest at distance 0 and falls off, though not
# quite evenly. How fast it falls is decided by the base, the 10000 of the formula. Move the sliders (here
# positions run from left to right): with a base of 10 all waves are short, and the dot product drops to 0 within a few
# positions. With 100 000 it falls off slowly.

# %% figure Position vectors with another base
position_waves()

# %% claims
similarity = {base: (10 * base ** (-torch.arange(16) / 16)).cos().mean() for base in (10.0, 1e4, 1e5)}  # 10 steps away
claim("the larger the base, the slower the fall", similarity[10.0] < 0 < 0.5 < similarity[1e4] < similarity[1e5])

# %% [markdown]
# The dot product is also symmetric: by itself it cannot tell *before* from *after*. But attention projects first, with
# $W^Q$ and $W^K$, and the next section shows what a projection can do with these vectors.
#
# ## 5 · A shift is a rotation
#
# Look at one pair. Its two numbers $(\sin a, \cos a)$ are a point on a circle, and one step turns it by a fixed angle.
# So going $k$ steps further (the paper's letter for a shift; it is not a {{term key}} here) is the *same* rotation
# everywhere. With $b = k \cdot 10000^{-2i/d_{\text{model}}}$:
#
# $$\begin{pmatrix}\sin(a+b)\\ \cos(a+b)\end{pmatrix} =
# \begin{pmatrix}\;?\; & \;?\;\\ \;?\; & \;?\;\end{pmatrix}\begin{pmatrix}\sin a\\ \cos a\end{pmatrix}.$$
#
# The addition theorems $\sin(a+b) = \sin a\cos b + \cos a \sin b$ and $\cos(a+b) = \cos a \cos b - \sin a \sin b$ give
# the four entries. The blocks of all pairs together form a matrix $M_k$ that does not depend on the position:
#
# $$PE_{pos + k} = M_k\, PE_{pos} \qquad \text{for every } pos .$$
#
# {{exercise shift_matrix}}
#
# Build $M_k$ for an even `d_model`. Vectors are columns here: `M @ table[pos]` must be `table[pos + k]`.


# %% exercise shift_matrix
def shift_matrix(k: int, d_model: int) -> Tensor:
    """The matrix M with PE(pos + k) = M @ PE(pos), for the interleaved table and every pos. d_model is even.

    k: how many positions to move; may be negative or 0.
    Returns: (d_model, d_model), floating point.
    """
    ### BEGIN SOLUTION
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        b = k / 10000 ** (2 * i / d_model)
        s, c = 2 * i, 2 * i + 1  # the sine and the cosine of this pair
        matrix[s, s], matrix[s, c] = math.cos(b), math.sin(b)
        matrix[c, s], matrix[c, c] = -math.sin(b), math.cos(b)
    return matrix
    ### END SOLUTION


# %% check shift_matrix
check(shift_matrix)

# %% figure A shift matrix, and two pairs on their circles
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(9, 3.3))
show_matrix(
    reference.shift_matrix(10, 6), "M for k = 10, d_model = 6", rows="row", columns="column", diverging=True, ax=left
)
left.tick_params(labelsize=8)
small = reference.sinusoidal_encoding(8, 16)
for ax, i in ((middle, 0), (right, 1)):
    ax.plot(small[:, 2 * i + 1], small[:, 2 * i], "o", color=COLOURS[i])
    for pos in range(8):
        x, y = 1.22 * small[pos, 2 * i + 1], 1.22 * small[pos, 2 * i]
        ax.text(x, y, str(pos), ha="center", va="center", fontsize=8)
    ax.set(title=f"pair {i} of 8, positions 0 to 7", xlabel=f"cosine (dim {2 * i + 1})", ylabel=f"sine (dim {2 * i})")
    ax.set(xlim=(-1.5, 1.5), ylim=(-1.5, 1.5), aspect="equal")
plt.show()

# %% [markdown]
# Pair 0 turns fast and pair 1 slowly, like the hands of a clock. And $M_k$ has blocks only along its diagonal: pairs do
# not mix, each turns by itself.
#
# Now for the {{term projection|projections}}. If the one for the {{term query}} contains $M_{-3}$, the query at
# position $i$ becomes $PE_{i-3}$ and is most similar to the key at $i - 3$. So attention can look **three tokens back,
# wherever it is**, and one learned matrix is enough for that.

# %% figure Attention that looks three tokens back
table = reference.sinusoidal_encoding(12, 64)
queries = table @ reference.shift_matrix(-3, 64).T  # row i is M @ PE(i)
scores = queries @ table.T
weights = scores.masked_fill(~causal_mask(12), -math.inf).softmax(dim=-1)
figure, ax = plt.subplots(figsize=(4.6, 3.8))
show_matrix(weights, "attention weights: three tokens back", numbers=False, colourbar=True, ax=ax)
plt.show()

# %% claims
claim("from position 3 on, the largest weight is three back", weights[3:].argmax(dim=-1).tolist() == list(range(9)))

# %% [markdown]
# ### Why both sine and cosine?
#
# Some texts say that with sines alone all columns would look alike. They would not: the frequencies still differ. The
# real reason is the rotation. $\sin(a + b)$ needs $\cos a$, and without the cosine column it is not there. We let least
# squares search for the best matrix that shifts by one, with both kinds of columns and with the sines alone.

# %%
table = reference.sinusoidal_encoding(201, 16).double()
shift_errors = {}
for name, columns in (("sine and cosine", table), ("sines alone", table[:, 0::2])):
    before, after = columns[:-1], columns[1:]
    best = torch.linalg.lstsq(before, after).solution
    shift_errors[name] = (before @ best - after).abs().max().item()
    print(f"{name:>15}: largest error of the best shift {shift_errors[name]:.1e}")

# %% claims
claim("with pairs the error is rounding", shift_errors["sine and cosine"] < 1e-4)
claim("with sines alone it is as large as the values", shift_errors["sines alone"] > 0.5)

# %% [markdown]
# With the pairs, the error is rounding. With the sines alone, even the best matrix is off by almost the size of the
# values.
#
# ## 6 · Adding, and how long the vectors are
#
# Why *add* the position instead of appending it as further columns? Nobody has derived that from first principles; it
# works. But adding loses less than it seems. Next comes a linear layer $W$. If we append $PE$ to $x$, that layer has
# one part for each: $W_1\, x + W_2\, PE$. If we add, it computes $W x + W PE$. So **adding is appending with the two
# parts tied together.**

# %%
x, p = torch.randn(7, 512), reference.sinusoidal_encoding(7, 512)
layer = torch.randn(3 * 512, 512) / math.sqrt(512)  # makes q, k and v
added = (x + p) @ layer.T
appended = torch.cat([x, p], dim=1) @ torch.cat([layer, layer], dim=1).T
overlap = F.cosine_similarity(x, p, dim=1).abs().mean()
print(f"largest difference: {(added - appended).abs().max():.1e}")
print(f"mean |cosine| of a word and a position: {overlap:.3f}")
print(f"weights of the layer: {3 * 512 * 512:,} when added, {3 * 512 * 1024:,} when appended")

# %% claims
claim("adding equals appending with tied weights", torch.allclose(added, appended, atol=1e-4))
claim("words and positions are nearly at right angles", overlap < 0.1)
claim("multiplied, the first token would lose half of its features", (x * p)[0].count_nonzero() == 256)

# %% [markdown]
# Appending doubles this layer. And adding loses little: in 512 dimensions two unrelated vectors are nearly at a right
# angle, so a linear layer can still read one and ignore the other. (Multiplying would lose more: in row 0 of $PE$ every
# second number is 0.)
#
# What matters is how *long* the two vectors are. The values of $PE$ lie between -1 and 1, but there are many of them.
# In each pair $\sin^2 + \cos^2 = 1$, so the length is exactly $\sqrt{d_{\text{model}}/2}$. The length of a word's
# vector depends on how the {{term embedding}} is initialised, and on whether it is first multiplied by
# $\sqrt{d_{\text{model}}}$, as in the paper.

# %%
embedding, root = torch.randn(1000, 512), math.sqrt(512)
position_length = reference.sinusoidal_encoding(9, 512).norm(dim=1).mean()
lengths = {
    "N(0, 1), torch's default": embedding.norm(dim=1).mean(),
    "N(0, 1) times sqrt(d_model)": (embedding * root).norm(dim=1).mean(),
    "N(0, 1/d_model)": (embedding / root).norm(dim=1).mean(),
}
for name, length in {"position vector": position_length, **lengths}.items():
    print(f"{name:<28} length {length:6.1f}")

# %% claims
_, scaled, small = lengths.values()
claim("unscaled small words are 16 times shorter than positions", abs(position_length / small - 16) < 0.5)
claim("scaled standard words are 32 times longer", abs(scaled / position_length - 32) < 1)

# %% [markdown]
# So "positions weigh little because they lie within ±1" is not true in general. With small weights and no scaling, the
# position is 16 times as long as the word. With torch's default *and* the factor, the word is 32 times as long as the
# position. The factor $\sqrt{d_{\text{model}}}$ is meant for small initial weights. A learned factor before $PE$ would
# let training choose.
#
# ### Another layout
#
# The paper interleaves sine and cosine. The authors' own library, tensor2tensor, puts all sines into the first half of
# the columns and all cosines into the second. To the model that only renames columns, and the first linear layer does
# not care. But trained weights do: a model needs the layout it was trained with.

# %% figure Two layouts of one table
interleaved, halves = reference.sinusoidal_encoding(50, 64), reference.concatenated_encoding(50, 64)
figure, axes = plt.subplots(1, 2, figsize=(8.8, 3))
for ax, values, title in zip(axes, (interleaved, halves), ("interleaved (paper)", "halves (tensor2tensor)")):
    show_matrix(values, title, rows="position", columns="dimension", numbers=False, diverging=True, ax=ax)
plt.show()
print("d_model = 4, position 1:")
for name, make in (("paper", reference.sinusoidal_encoding), ("tensor2tensor", reference.concatenated_encoding)):
    print(f"{name:>14}", [round(v, 4) for v in make(2, 4)[1].tolist()])

# %% claims
claim("the last frequency is 1/10000 there", abs(reference.concatenated_encoding(2, 4)[1, 1].asin() - 1e-4) < 1e-7)
claim("and 1/100 in the paper", abs(reference.sinusoidal_encoding(2, 4)[1, 2].asin() - 1e-2) < 1e-6)

# %% [markdown]
# The last line shows a second difference: that library spreads its frequencies so that the last one is exactly 1/10000.
#
# ## 7 · A module that adds positions
#
# The formula does not depend on the text. So the table is computed **once**, for more positions than will ever be
# needed, and every call takes the rows it needs: an input of 7 tokens gets rows 0 to 6.
#
# Where should a module keep such a table? Notebook 0 compared the ways. Not in an `nn.Parameter`, because there is
# nothing to learn. Not in a plain attribute, which stays behind when the model moves to another device. It belongs in a
# {{term buffer}}: moved with the module, not trained.
#
# > **Spot the mistakes.** This class is put together from things one finds on the internet. It has five flaws. Find
# > them before you open the answer.
# >
# > ```python
# > class Encoder(nn.Module):
# >     def __init__(self, d_model, max_len):
# >         super().__init__()
# >         self.scale = math.sqrt(d_model)
# >         pe = torch.zeros(max_len, d_model)
# >         for pos in range(max_len):
# >             for c in range(0, d_model, 2):
# >                 pe[pos, c] = math.sin(pos / (10000 ^ (c / d_model)))
# >                 pe[pos, c + 1] = math.cos(pos / (10000 ^ ((c + 1) / d_model)))
# >         self.register_buffer("pe", pe[None])
# >
# >     def forward(self, x):  # (batch, time, d_model)
# >         return self.scale * x + Variable(self.pe[:, : x.size(1)]).cuda()
# > ```
#
# <details><summary>Answer</summary>
#
# 1. In Python `^` is not a power but a bitwise operation; on floats it raises a TypeError. It should be `**`.
# 2. The cosine has an exponent of its own, `c + 1`. Both columns of a pair share the exponent `c / d_model`.
# 3. If `d_model` is odd, column `c + 1` does not exist: an IndexError.
# 4. `.cuda()` fails on every machine without a GPU, and it is not needed: the buffer already is where the model is.
#    (`Variable` has had no effect since 2018.)
# 5. It silently scales `x`. That may be wanted, but it belongs in the embedding, where a reader looks for it.
#
# </details>
#
# {{exercise PositionalEncoding}}
#
# Write it properly. Use `reference.sinusoidal_encoding` for the table, so that this exercise does not depend on the
# first one (your own is fine too). Keep the table as a buffer. `d_model` may be odd. The result must have the dtype of
# `x`, even in {{term half precision}}, and the {{term gradient}} must pass through to `x`.


# %% exercise PositionalEncoding
class PositionalEncoding(nn.Module):
    """Adds the sinusoidal table to a batch of sequences. Nothing else: no scaling, no dropout, nothing to train."""

    def __init__(self, d_model: int, max_len: int = 5000):
        """Keep the table for max_len positions, (max_len, d_model), as a buffer."""
        super().__init__()
        ### BEGIN SOLUTION
        table = reference.sinusoidal_encoding(max_len, d_model)
        self.register_buffer("table", table, persistent=False)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """Add row t of the table to token t.

        x: (batch, time, d_model), time at most max_len. Returns: the same shape and dtype.
        """
        ### BEGIN SOLUTION
        rows = self.table[: x.shape[1]]  # (time, d_model)
        return x + rows.to(x.dtype)
        ### END SOLUTION


# %% check PositionalEncoding
check(PositionalEncoding)

# %% [markdown]
# Back to the cat. With your positions, the two sentences are no longer the same to attention.

# %%
add_positions = yours("PositionalEncoding", PositionalEncoding)(d_model=4, max_len=10)
print("trainable numbers in the module:", sum(p.numel() for p in add_positions.parameters()))
cats = []
for sentence in sentences:
    x = add_positions(torch.stack([words[word] for word in sentence])[None])  # (1, time, feature)
    output, _ = masked_attention(x, x, x, everything)
    cats.append(output[0, sentence.index("cat")])
    print(" ".join(sentence), "-> cat becomes", cats[-1].numpy().round(4))

# %% claims
claim("with positions, cat differs", (cats[0] - cats[1]).abs().max() > 0.05)
claim("nothing in the module is trained", not list(add_positions.parameters()))

# %% [markdown]
# Two warnings from practice. An input with more tokens than `max_len` must not pass silently; here the sum of two
# different lengths raises an error. And remember the trap of notebook 2: once positions are added, the vector of a
# padding token is never zero.
#
# ## 8 · A learned table
#
# We can also let training decide and treat the *position* like a word: an embedding table with one row per position
# (Gehring et al. 2017; BERT and GPT-2 do it).
#
# $$x_t \;\leftarrow\; x_t + E_{t}, \qquad E \in \mathbb{R}^{\text{max\_len} \times d_{\text{model}}} \text{ trained.}$$
#
# {{exercise LearnedPositions}}
#
# Use `nn.Embedding` or an `nn.Parameter`, as you like. The arguments come in the order of `nn.Embedding`: rows first.
# The check puts its own numbers into the one trainable table of your module, so names and initial values are up to
# you. As before, the module adds and does nothing else: no {{term dropout}}, and the gradient passes through to `x`.


# %% exercise LearnedPositions
class LearnedPositions(nn.Module):
    """Adds one trained vector per position."""

    def __init__(self, max_len: int, d_model: int):
        """Make one trainable table of shape (max_len, d_model)."""
        super().__init__()
        ### BEGIN SOLUTION
        self.table = nn.Embedding(max_len, d_model)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """Add row t of the table to token t.

        x: (batch, time, d_model), time at most max_len. Returns: the same shape.
        """
        ### BEGIN SOLUTION
        positions = torch.arange(x.shape[1], device=x.device)  # (time,)
        return x + self.table(positions)
        ### END SOLUTION


# %% check LearnedPositions
check(LearnedPositions)

# %% [markdown]
# A learned table has a weakness, and the gradients show it. Here are 200 sentences of 3 to 12 tokens and a table with
# 16 rows. How often does each row get a gradient?

# %% figure How often each row of a learned table is trained
module = reference.LearnedPositions(max_len=16, d_model=8)
visits = torch.zeros(16)
for length in torch.randint(3, 13, (200,)):
    module.zero_grad()
    module(torch.randn(1, length, 8)).square().sum().backward()
    visits += (module.table.weight.grad != 0).any(dim=1)
figure, ax = plt.subplots(figsize=(6.6, 2.8))
ax.bar(range(16), visits, color=COLOURS[0])
ax.set(title="200 training sentences of 3 to 12 tokens", xlabel="row of the table (position)", ylabel="times trained")
ax.set_xticks(range(16))
plt.show()

# %% claims
claim("late rows are trained rarely, rows 12 to 15 never", visits[11] < 50 and not visits[12:].any())

# %% [markdown]
# Late positions are seen rarely, and rows 12 to 15 never: they keep their random start. A sentence of 14 tokens would
# meet two vectors that mean nothing.
#
# | | learned table | fixed formula |
# |---|---|---|
# | to write | one line | a few lines, and a formula to choose |
# | parameters | max_len × d_model | none |
# | fits the data | yes | only as far as later layers make use of it |
# | rarely seen positions | poorly trained | as good as all others |
# | beyond the longest text | no vector at all | has a vector, but is the model used to it? |
#
# The end of this notebook answers the question in the last line.
#
# ## 9 · Relative positions: only the distance counts
#
# "The word before the verb" is the same relation at position 5 and at position 500. Both tables so far are *absolute*:
# they say where a token stands, and the model has to work out distances. A *relative* scheme gives the distance
# directly, at the one point where two tokens meet: in the {{term score}}. In Transformer-XL (Dai et al. 2019, after
# Shaw et al. 2018), a query is compared with the key **and** with a vector $r$ that belongs to the distance (the paper
# adds two learned offsets):
#
# $$\text{score}_{ij} = q_i \cdot k_j + q_i \cdot r_{i-j}.$$
#
# Transformer-XL needs this. It reads a long text piece by piece and keeps the previous piece in memory. With absolute
# positions every piece would start at 0 again, and the positions in memory would be wrong. Distances stay right. Here
# we move a text by 10 places and see what happens to the scores.

# %%
x, weights = torch.randn(5, 16), torch.randn(2, 16, 16) / 4
table, r = reference.sinusoidal_encoding(30, 16), torch.randn(30, 16)


def absolute_scores(start: int) -> Tensor:
    q, k = (x + table[start : start + 5]) @ weights
    return (q @ k.T).tril()


def relative_scores(start: int) -> Tensor:
    q, k = x @ weights
    positions = torch.arange(5) + start
    distance = (positions[:, None] - positions).clamp(min=0)  # (query, key)
    return (q @ k.T + torch.einsum("id,ijd->ij", q, r[distance])).tril()


moves = [(scores(10) - scores(0)).abs().max().item() for scores in (absolute_scores, relative_scores)]
print(f"moving the text changes absolute scores by up to {moves[0]:.2f}, relative scores by up to {moves[1]:.2f}")

# %% claims
claim("moving a text changes absolute scores and no relative ones", moves[0] > 1 and moves[1] == 0)

# %% [markdown]
# ## 10 · RoPE: turn the queries and keys
#
# Is there a scheme as simple as an absolute table, with the effect of a relative one? Su et al. (2021) found one. It
# adds nothing; it *turns* (rotates) queries and keys. Take a query at position $u$ and a key at position $w$, cut both
# into pairs of features, and turn each pair by its position times the pair's frequency. The dot product depends only on
# the difference of the two angles:
#
# $$\langle R_u\, q,\; R_w\, k\rangle = \langle q,\; R_{w-u}\, k\rangle .$$
#
# Let $(a, b)$ be a pair, features $2i$ and $2i+1$, and $\theta = pos \cdot 10000^{-2i/d}$. Then
#
# $$(a,\, b) \;\mapsto\; (a\cos\theta - b\sin\theta,\;\; a\sin\theta + b\cos\theta).$$
#
# No length changes. The positions are an argument, because they need not start at 0: a model that writes word by word
# passes one vector at a time.
#
# {{exercise apply_rope}}
#
# The pairs are neighbours: features (0, 1), (2, 3), …. `d` is even. Gradients must flow back to `x`, and `x` itself
# stays as it is.


# %% exercise apply_rope
def apply_rope(x: Tensor, positions: Tensor) -> Tensor:
    """Turn the pairs of features (0, 1), (2, 3), … of each vector; pair i by its position times 10000^(-2i/d).

    x: (..., time, d), d even; positions: (time,), the position of each vector.
    Returns: (..., time, d). Gradients flow back to x, and x itself stays unchanged.
    """
    ### BEGIN SOLUTION
    d = x.shape[-1]
    frequencies = 10000.0 ** (-2 * torch.arange(d // 2) / d)  # (d/2,)
    angles = positions[:, None] * frequencies  # (time, d/2)
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., 0::2], x[..., 1::2]  # (..., time, d/2)
    turned = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1)  # (..., time, d/2, 2)
    return turned.flatten(start_dim=-2)
    ### END SOLUTION


# %% check apply_rope
check(apply_rope)

# %% [markdown]
# Two pairs of one query at eight positions, and the scores of this query with one key at all pairs of positions. Along
# each diagonal, where the distance is the same, the scores are constant.

# %% figure One query turned to eight positions, and its scores
torch.manual_seed(5)
query, key = torch.randn(2, 16)
positions = torch.arange(8)
turned = reference.apply_rope(query.expand(8, 16), positions)
scores = turned @ reference.apply_rope(key.expand(8, 16), positions).T
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(9, 3.2), width_ratios=[1, 1, 1.25])
for ax, i in ((left, 0), (middle, 1)):
    pair = turned[:, 2 * i : 2 * i + 2] / turned[0, 2 * i : 2 * i + 2].norm()
    for pos, (a, b) in enumerate(pair.tolist()):
        ax.plot([0, a], [0, b], color=COLOURS[i], alpha=1 - 0.09 * pos)
        ax.text(1.2 * a, 1.2 * b, str(pos), ha="center", va="center", fontsize=8)
    ax.set(title=f"pair {i} of 8, positions 0 to 7", xlabel=f"feature {2 * i}", ylabel=f"feature {2 * i + 1}")
    ax.set(xlim=(-1.5, 1.5), ylim=(-1.5, 1.5), xticks=[-1, 0, 1], yticks=[-1, 0, 1], aspect="equal")
show_matrix(scores, "q · k after turning", rows="position of q", columns="position of k", diverging=True, ax=right)
plt.show()

# %% claims
claim("the scores are constant along diagonals", all(scores.diagonal(d).std() < 1e-4 for d in range(-6, 7)))

# %% [markdown]
# Many models pair feature $i$ with feature $i + d/2$ instead of its neighbour. As with the two layouts above, that is
# the same method with the columns renamed, and again the two must not be mixed.
#
# RoPE has a **long-range decay**, like the sinusoids. Take random queries, let each key equal its query, and move the
# keys away: on average the score falls with the distance, because more and more pairs get out of step.

# %% figure Scores fall with distance
vectors = torch.randn(200, 1, 64)
distance = torch.arange(0, 400)
turned = reference.apply_rope(vectors.expand(200, 400, 64), distance)
rope_score = (turned * vectors).sum(dim=-1).mean(dim=0) / 64
table = reference.sinusoidal_encoding(400, 64)
sinusoidal_score = table @ table[0] / 32
figure, ax = plt.subplots(figsize=(7.4, 3.2))
ax.plot(distance, rope_score, label="RoPE: q · R k for k = q, mean of 200")
ax.plot(distance, sinusoidal_score, "--", label="sinusoids: PE(0) · PE(distance)")
ax.axhline(0, color="grey", linewidth=0.8)
ax.set(title="scores fall with distance, d = 64 (1 = distance 0)", xlabel="distance", ylabel="score")
ax.legend()
plt.show()

# %% claims
claim("the two curves are nearly one", (rope_score - sinusoidal_score).abs().max() < 0.15)
claim("scores fall", rope_score[300:].mean() < 0.6 * rope_score[:10].mean())

# %% [markdown]
# The curves nearly coincide, for a good reason: both are averages of $\cos(\text{distance} \cdot \text{frequency})$
# over the same frequencies.
#
# ## 11 · ALiBi: make distance cost something
#
# Press et al. (2022) did something even simpler. There are no position vectors at all. Subtract from each score, before
# the {{term softmax}}, a penalty that grows with the distance:
#
# $$\text{score}_{ij} = \frac{q_i \cdot k_j}{\sqrt{d_k}} - \text{slope} \cdot (i - j), \qquad j \le i .$$
#
# Real models run several attentions side by side, each with scores of its own: the {{term head|heads}} of notebook 4.
# In ALiBi each head has its own slope: steep ones look at the last few tokens, flat ones see far. The slopes are fixed,
# not learned. For $h$ heads, with $h$ a power of two, slope number $s$ is $2^{-8s/h}$, for $s = 1, \dots, h$. With 8
# heads these are $\frac12, \frac14, \dots, \frac1{256}$.
#
# For other numbers of heads, let $p$ be the largest power of two that is at most $h$. The first $p$ slopes are those of
# $p$ heads, $2^{-8s/p}$. The remaining $h - p$ are every second slope of the series for $2p$ heads: $2^{-4s/p}$ with
# $s = 1, 3, 5, \dots$, in this order. With 3 heads: $2^{-4}, 2^{-8}$, and then $2^{-2}$.
#
# {{exercise alibi_bias}}
#
# Return what is *added* to the scores. Only keys up to the query count ($j \le i$). What you put to the right of the
# diagonal does not matter, since the causal mask hides it. Nor does a constant added to a whole row. (Why? The softmax
# does not notice it.)


# %% exercise alibi_bias
def alibi_bias(num_heads: int, n: int) -> Tensor:
    """What ALiBi adds to the scores of n queries and n keys.

    Returns: (num_heads, n, n); for query i and key j <= i it is -slope × (i - j). The s-th head has slope number s.
    """
    ### BEGIN SOLUTION
    p = 2 ** int(math.log2(num_heads))  # the largest power of two that fits
    slopes = [2 ** (-8 * s / p) for s in range(1, p + 1)]
    slopes += [2 ** (-4 * s / p) for s in range(1, 2 * (num_heads - p), 2)]
    positions = torch.arange(n)
    distance = positions[:, None] - positions  # (query, key)
    return -torch.tensor(slopes)[:, None, None] * distance
    ### END SOLUTION


# %% check alibi_bias
check(alibi_bias)

# %% [markdown]
# Where does the last of 256 queries look? First, all scores are equal, so that only the penalty counts. Then one key,
# 200 steps back, matches the query: its score is 8, that of all others 0.

# %% figure Where three slopes look
bias = reference.alibi_bias(8, 256)[[0, 3, 7], -1]  # (slope, key): the last query
slopes = {"1/2": 1 / 2, "1/16": 1 / 16, "1/256": 1 / 256}
distance = torch.arange(255, -1, -1)
scores = torch.zeros(256)
equal = (scores + bias).softmax(dim=-1)
scores[distance == 200] = 8.0
one_match = (scores + bias).softmax(dim=-1)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True)
for ax, weights, title in zip(axes, (equal, one_match), ("all scores 0", "the key 200 steps back has score 8")):
    for row, name, style in zip(weights, slopes, ("-", "--", "-.")):
        ax.semilogy(distance, row, style, label=f"slope {name}")
    ax.set(title=title, xlabel="steps back from the query", ylim=(1e-6, 2))
axes[0].set_ylabel("attention weight")
axes[0].legend()
plt.show()
found = dict(zip(slopes, one_match[:, distance == 200].flatten().tolist()))
for name, slope in slopes.items():
    print(f"slope {name:>5}: 200 steps cost {200 * slope:6.2f}; the matching key gets weight {found[name]:.3f}")

# %% claims
claim("the flattest slope finds the key 200 back", abs(found["1/256"] - 0.894) < 0.01)
claim("the others do not", found["1/16"] < 0.001 and found["1/2"] < 1e-6)

# %% [markdown]
# With slope 1/256 a distance of 200 costs less than one point of score, and the matching key gets 0.89 of the
# attention. With slope 1/16 it costs 12.5, more than the match is worth, and the key is out of reach. So ALiBi can look
# far, but only with its flattest slopes, and every step back has to be paid for.
#
# ## 12 · Longer than trained
#
# Back to the open question. Sinusoids and RoPE are formulas: they *have* a value at position 10 000. Does a model that
# was trained on short texts know what to do with it? Let us measure.
#
# The data: sequences over an alphabet of 8 symbols. The next symbol depends, by a random table, on the last two. So
# order matters, but only nearby. And we know how well one *can* do: no model can beat the {{term entropy}} of the
# source. The model: two causal layers, 4 heads, 32 features, trained on pieces of **32** symbols. The test: sequences
# of 256, and for each position the {{term loss}} in {{term bit|bits}}. The model's code is in
# `course_lib/position_model.py`; notebooks 4 to 6 build the parts. Training five of them takes up to a minute.


# %%
def make_sequences(count: int, length: int, rules: Tensor) -> Tensor:
    """count sequences; each symbol is drawn given the two before it. rules: (symbol, symbol, next symbol)."""
    sequences = torch.randint(len(rules), (count, length))
    for t in range(2, length):
        chances = rules[sequences[:, t - 2], sequences[:, t - 1]]
        sequences[:, t] = torch.multinomial(chances, 1)[:, 0]
    return sequences


torch.manual_seed(0)
rules = (2 * torch.randn(8, 8, 8)).softmax(dim=-1)
train_data, test_data = make_sequences(256, 1000, rules), make_sequences(300, 257, rules)
best = -rules[test_data[:, :-2], test_data[:, 1:-1]].gather(-1, test_data[:, 2:, None]).log2().mean().item()
print(f"the best possible: {best:.2f} bits;  guessing: {math.log2(8):.2f} bits")

# %%
from course_lib.position_model import SCHEMES, PositionModel


def train_and_measure(scheme: str, steps: int = 250, trained_length: int = 32) -> Tensor:
    """The mean loss in bits at each position of the long test sequences."""
    torch.manual_seed(0)
    model = PositionModel(scheme).to(device)
    optimiser = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=5e-3, total_steps=steps)
    for _ in bar(range(steps), scheme):
        start = torch.randint(0, train_data.shape[1] - trained_length, (1,)).item()
        batch = train_data[torch.randperm(len(train_data))[:32], start : start + trained_length + 1].to(device)
        loss = F.cross_entropy(model(batch[:, :-1]).transpose(1, 2), batch[:, 1:])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    with torch.no_grad():
        test = test_data.to(device)
        losses = F.cross_entropy(model(test[:, :-1]).transpose(1, 2), test[:, 1:], reduction="none")
    return losses.mean(dim=0).cpu() / math.log(2)


bits = {scheme: train_and_measure(scheme) for scheme in SCHEMES}

# %%
ranges = ((8, 32), (32, 48), (48, 64), (64, 128), (128, 256))
print("positions  ", "".join(f"{f'{a} to {b - 1}':>12}" for a, b in ranges))
for scheme, curve in bits.items():
    print(f"{scheme:<11}", "".join(f"{curve[a:b].mean():12.2f}" for a, b in ranges))

# %% claims
short = {scheme: curve[8:32].mean().item() for scheme, curve in bits.items()}
long = {scheme: curve[64:].mean().item() for scheme, curve in bits.items()}
claim(
    "within the trained length RoPE is best and close to the optimum",
    min(short, key=short.get) == "RoPE" and short["RoPE"] < best + 0.15,
)
claim("and no positions are worst", max(short, key=short.get) == "none")
claim("beyond it RoPE is worst, and worse than guessing", max(long, key=long.get) == "RoPE" and long["RoPE"] > 3.2)
claim("sinusoidal and learned are about as bad as guessing", min(long["sinusoidal"], long["learned"]) > 2.85)
claim("and that at once", min(bits[scheme][32:48].mean() for scheme in ("sinusoidal", "learned")) > 2.85)
claim("no positions beat all three", long["none"] < min(long["sinusoidal"], long["learned"], long["RoPE"]) - 0.05)
claim("ALiBi does not notice", long["ALiBi"] < short["ALiBi"] + 0.15)

# %% figure The loss at each position, five schemes
figure, ax = plt.subplots(figsize=(8.6, 3.6))
for (scheme, curve), style in zip(bits.items(), (":", "-", "--", "-.", (0, (5, 1, 1, 1, 1, 1)))):
    ax.plot(range(6, 256, 4), curve[4:].unfold(0, 4, 4).mean(dim=-1), linestyle=style, label=scheme)  # means of four
ax.axvline(32, color="grey", linewidth=1, label="end of the trained length")
ax.axhline(3, color="grey", linewidth=1, linestyle="--", label="guessing")
ax.axhline(best, color="grey", linewidth=1, linestyle=":", label="best possible")
ax.set(title="trained on 32 positions, tested on 256", xlabel="position", ylabel="loss in bits")
ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
plt.show()

# %% [markdown]
# Within the trained length, RoPE comes closest to the best possible, and the model without positions is clearly the
# worst: two causal layers do see *some* order, but not much. Beyond it:
#
# - **Sinusoidal and learned** positions fail at once and are about as bad as guessing. The formula gives position 40 a
#   vector, but no layer has ever met it. That a formula is *defined* there does not mean that the model works there.
# - **RoPE** fails worst of all: it is *worse* than guessing. It meets distances it has never been trained on, and is
#   confidently wrong. Large models have the same problem. The usual remedy is some further training on long texts, with
#   positions squeezed into the trained range (Chen et al. 2023) or a larger base than 10000 (Xiong et al. 2023).
# - A model with **no positions at all** does better than these three: nothing in it could be out of range.
#   Kazemnejad et al. (2023) compared decoders on reasoning and arithmetic. Those without positions coped best with
#   longer inputs, better even than ALiBi.
# - **ALiBi** does not notice. A token far back is pushed down to nearly nothing, whether or not it was there in
#   training. That suits this task, in which only the last two symbols matter.
#
# {{question any_length}}
#
# A colleague says: "We use sinusoidal positions. They are a formula and need no training, so our model can read texts
# of any length." What is right about this, what is wrong, and which two changes could you suggest? Three or four
# sentences will do.

# %% answer any_length 2 [markdown]
# ### BEGIN SOLUTION
# Right: the formula gives a vector for every position, so nothing crashes, and there is nothing to train in the table
# itself. Wrong: the layers after it have only seen the vectors of the positions that occurred in training, and the
# measurement shows that the loss jumps as soon as the text is longer. Changes: use a scheme that depends on distance
# and fades out, such as ALiBi; or RoPE with further training on long texts; or train on texts as long as those to be
# read.
#
# **Rubric**
#
# - 1 point: right: a vector exists for every position, nothing crashes; wrong: the other layers have never seen those
#   positions; half a point for one of the two
# - 1 point: two changes that would help, such as ALiBi, RoPE with training on long texts, or training on the lengths
#   that are used; half a point for one
# ### END SOLUTION

# %% [markdown]
# ## What you can do now
#
# - say exactly when attention is blind to order, and show it with a permutation;
# - compute sinusoidal positions by hand, and say which columns are fast and which are slow;
# - write down the rotation that shifts them, and say why both sine and cosine are needed;
# - show that adding is a special case of appending, and compare the lengths of what is added;
# - keep a table in a module as a buffer or as a parameter, and know the difference;
# - build RoPE and ALiBi, and say what they promise for long texts and what you measured.
#
# **Further reading**
#
# - Vaswani et al. 2017, *Attention Is All You Need*, section 3.5: the sinusoids. Alammar 2018, *The Illustrated
#   Transformer*, draws them, in the tensor2tensor layout.
# - Gehring et al. 2017, *Convolutional Sequence to Sequence Learning*: learned positions.
# - Shaw et al. 2018, *Self-Attention with Relative Position Representations*, and Dai et al. 2019, *Transformer-XL*:
#   positions inside attention.
# - Su et al. 2021, *RoFormer*: RoPE. Press et al. 2022, *Train Short, Test Long*: ALiBi.
# - Haviv et al. 2022, *Transformer Language Models without Positional Encodings Still Learn Positional Information*,
#   and Kazemnejad et al. 2023, *The Impact of Positional Encoding on Length Generalization in Transformers*: no
#   positions.
# - Chen et al. 2023, *Extending Context Window of Large Language Models via Positional Interpolation*, and Xiong et al.
#   2023, *Effective Long-Context Scaling of Foundation Models*: RoPE beyond the trained length.
