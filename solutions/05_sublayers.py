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
# # 5 · Sub-layers
#
# Attention is the famous part. This notebook builds everything else: the table that turns words into vectors, the small
# network that works on every position, the norms, the residual connections around each sub-layer, and dropout. Each is
# a few lines long, and each can be slightly wrong without raising an error. In the last section you run an experiment
# of your own.

# %% setup
import math
from collections.abc import Callable

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib import check, hint, solution, yours
from course_lib import sublayers as reference
from course_lib.multi_head_attention import MultiHeadAttention
from course_lib.plotting import COLOURS, PARTS, show_map, show_matrix, use_course_style
from course_lib.positions import sinusoidal_encoding
from course_lib.progress_bar import bar
from course_lib.settings import course_device
from course_lib.translation import copy_batches

use_course_style()
device = course_device()
torch.set_printoptions(precision=4, sci_mode=False)

# %% figure Where this notebook is on the map
show_map("05_sublayers")

# %% [markdown]
# ## One position at a time
#
# Notebook 1 measured which output reacts to which input: only attention carries information from one position to
# another. Everything in this notebook works on each position by itself. So you can think of a single position, a
# single vector of size {{term d_model|`d_model`}}, and forget the others. That is also why these pieces run on all
# positions in parallel.

# %% [markdown]
# ## Words become vectors
#
# A network calculates with numbers, and words are not numbers. So each {{term token}} of the {{term vocabulary}} gets a
# number, its *id*, and the id is the row of a table. That row is a vector of size $d_{\text{model}}$, which is learned:
# the {{term embedding}} of the token.
#
# $$e_{\text{word}} = W[\text{id of the word}] \qquad W \in \mathbb{R}^{\text{vocab size} \times d_{\text{model}}}$$

# %%
sentence = "the cat is on the mat".split()
vocabulary = {word: number for number, word in enumerate(sorted(set(sentence)))}
ids = torch.tensor([vocabulary[word] for word in sentence])
print("vocabulary:", vocabulary)
print("ids:       ", ids.tolist())

torch.manual_seed(0)
table = torch.randn(len(vocabulary), 4)  # (vocab_size, d_model)
v = table[ids]  # (6, 4)
print("vectors:   ", tuple(v.shape), " the two 'the' are equal:", torch.equal(v[0], v[4]))

one_hot = F.one_hot(ids, len(vocabulary)).float()  # (6, vocab_size): a single 1 in each row
print("looking up is a product with one-hot rows:", torch.equal(one_hot @ table, v))

# %% claims
claim("six vectors from five rows", v.shape == (6, 4) and len(table) == 5)
claim("a look-up is a product with one-hot rows", torch.equal(one_hot @ table, v))

# %% [markdown]
# Six words, five rows in the table, six vectors, since "the" is looked up twice. How many would "The cat is on the
# mat ." need, with a capital letter and a full stop? Seven vectors from seven rows: to a table "The" and "the" are two
# words, unless everything is put in lower case first, and the full stop is a token of its own.
#
# **Spot the mistake.** "The embedding matrix has size sequence length × $d_{\text{model}}$, where sequence length is
# the size of the vocabulary." Which of the two is it? Here is a table that has six rows because the sentence has six
# words:

# %%
try:
    nn.Embedding(6, 8)(torch.tensor([123]))
except IndexError as error:
    print("torch:     ", error)
try:
    reference.TokenEmbedding(6, 8)(torch.tensor([[123]]))
except IndexError as error:
    print("the course:", str(error).replace(". ", ".\n            "))

# %% [markdown]
# The table belongs to the vocabulary and never knows how long a sentence is.
#
# **Special tokens.** Some rows stand for no word at all.
#
# | token | what for |
# |---|---|
# | PAD ({{term padding}}) | fills short sentences up, so that a {{term batch}} is a rectangle |
# | {{term BOS}} (or SOS) | the first thing the {{term decoder}} reads, when it has written nothing yet |
# | {{term EOS}} | ends what the decoder writes: without it nobody knows when to stop |
#
# For "le chat est sur le tapis" the decoder reads `BOS le chat est sur le tapis` and should write `le chat est sur le
# tapis EOS`: the same words, shifted by one place.
#
# **Where are the tables?** Only at the bottom. The first layer gets embeddings, every other layer the output of the
# layer below. A translator has one table for the words that go into the {{term encoder}} and one for those that go into
# the decoder (they may be the same). A speech recogniser needs one for its decoder only: its encoder is given vectors
# already.

# %% [markdown]
# ### What nn.Embedding does, and what it does not
#
# `nn.Embedding` is such a table with a look-up. Its `weight` is a {{term parameter}} like any other, and it starts with
# normally distributed numbers of variance 1. With `padding_idx` one row starts as zeros and gets no {{term gradient}}.
# And a table that somebody else has trained (word2vec, GloVe) can be loaded with `from_pretrained`. Here that table is
# all ones. Guess before you run the cell: what is in its padding row after loading? Can it be trained? Which rows get a
# gradient?

# %%
fresh = nn.Embedding(100, 512, padding_idx=0)
print(f"a fresh table: variance {fresh.weight[1:].var():.2f}, padding row all zero: {not fresh.weight[0].any()}")

pretrained = torch.ones(5, 3)
loaded = nn.Embedding.from_pretrained(pretrained, padding_idx=0)
print("padding row after from_pretrained: ", loaded.weight[0].tolist(), " <- left as it was")
print("trainable after from_pretrained:   ", loaded.weight.requires_grad, " <- unless you pass freeze=False")
try:
    nn.Embedding.from_pretrained(pretrained_embeddings=pretrained)
except TypeError:
    print("the argument is called `embeddings`, not `pretrained_embeddings`")

loaded = nn.Embedding.from_pretrained(pretrained, freeze=False, padding_idx=0)
loaded(torch.tensor([0, 1])).sum().backward()
print("gradient of rows 0 and 1:          ", loaded.weight.grad[:2].tolist())

# %% claims
claim("a fresh table has variance 1", abs(fresh.weight[1:].var().item() - 1) < 0.05)
claim("the padding row is left as it was", bool(loaded.weight[0].all()))
claim("the padding row gets no gradient", loaded.weight.grad[:2].tolist() == [[0.0] * 3, [1.0] * 3])

# %% [markdown]
# So `padding_idx` promises two different things. *No gradient* always holds. *A row of zeros* holds only for a table
# that `nn.Embedding` has just made. Whoever fills the table afterwards, with trained vectors or with other random
# numbers, has to zero the row again.

# %% [markdown]
# ### How large should an embedding be?
#
# The table has two partners. The position vector, which is added to a row, has length $\sqrt{d_{\text{model}}/2}$
# (notebook 3): 16 for $d_{\text{model}} = 512$. If a word vector is much shorter, it drowns; if it is much longer, its
# position does. And the output layer, which in the paper *is* this table ({{term weight tying}}), takes the
# {{term dot product}} of each row with a normalised vector. These scores, the {{term logits}}, should start at a size
# of about 1. So two things have to be chosen together: the variance of the numbers, and whether a looked-up row is
# multiplied by $\sqrt{d_{\text{model}}}$.

# %%
torch.manual_seed(0)
d_model = 512
print("length of a position vector:", sinusoidal_encoding(1, d_model).norm().item())
normalised = torch.randn(200, d_model)  # numbers of size 1, as a norm makes them
sizes = {}
for name, std in (("1", 1.0), ("1/d", d_model**-0.5)):
    table = torch.randn(1000, d_model) * std
    length = table.norm(dim=-1).mean().item()
    logits = normalised @ table.T  # (200, 1000)
    sizes[name] = length, logits.std().item()
    print(
        f"variance {name:3}   length of a row {length:4.1f}, times √d {length * math.sqrt(d_model):5.1f}   "
        f"size of the logits {logits.std():4.1f}"
    )

# %% claims
claim("variance 1: rows and logits of about 22.6", all(abs(size - 22.6) < 0.5 for size in sizes["1"]))
claim("variance 1/d: rows of length 1 and logits of size 1", all(abs(size - 1) < 0.05 for size in sizes["1/d"]))

# %% [markdown]
# With variance 1 a row fits the position as it is (22.6 and 16), but the logits are just as large, far too large to
# start with. With variance $1/d_{\text{model}}$ the logits are right, and the factor makes a word fit its position. The
# paper has this factor, and its authors' program this variance.
#
# $$\operatorname{embed}(\text{id}) = \sqrt{d_{\text{model}}} \; W[\text{id}] \qquad
# W_{ij} \sim \mathcal{N}\!\left(0, \tfrac{1}{d_{\text{model}}}\right) \qquad W[\text{pad}] = 0$$
#
# {{exercise TokenEmbedding}}


# %% exercise TokenEmbedding
class TokenEmbedding(nn.Module):
    """A table with one row for each token, multiplied by √d_model. No dropout here.

    At the start its numbers are normally distributed with variance 1/d_model. The row of pad_id is zero and gets no
    gradient. Parameters: a table (vocab_size, d_model), such as self.table = nn.Embedding(…).
    """

    def __init__(self, vocab_size: int, d_model: int, pad_id: int = 0):
        super().__init__()
        ### BEGIN SOLUTION
        self.table = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.table.weight, mean=0.0, std=d_model**-0.5)
        with torch.no_grad():
            self.table.weight[pad_id] = 0.0
        ### END SOLUTION

    def forward(self, ids: Tensor) -> Tensor:
        """ids: (batch, time), whole numbers. Returns: (batch, time, d_model)."""
        ### BEGIN SOLUTION
        return self.table(ids) * self.scale
        ### END SOLUTION


# %% check TokenEmbedding
check(TokenEmbedding)


# %% figure Word and position over many sizes of model
torch.manual_seed(0)
embedding_class = yours("TokenEmbedding", TokenEmbedding)
sizes = [8, 16, 32, 64, 128, 256, 512, 1024]
scaled, positions = [], []
for d_model in sizes:
    vectors = embedding_class(200, d_model)(torch.arange(1, 200)[None])[0].detach()
    scaled.append(vectors.norm(dim=-1).mean())
    positions.append(sinusoidal_encoding(200, d_model).norm(dim=-1).mean())
rows = [length / math.sqrt(d_model) for length, d_model in zip(scaled, sizes)]

figure, ax = plt.subplots(figsize=(6.5, 3.2))
ax.loglog(sizes, scaled, "o-", label="embedding: row times √d_model")
ax.loglog(sizes, positions, "s-", label="position vector: √(d_model / 2)")
ax.loglog(sizes, rows, "^-", label="row without the factor")
ax.set(title="Word and position keep comparable lengths", xlabel="d_model", ylabel="mean length of a vector")
ax.legend(frameon=False, fontsize=8)
plt.show()

# %% claims
claim(
    "with the factor, word and position keep a ratio of √2",
    all(abs(a / b - 2**0.5) < 0.15 for a, b in zip(scaled, positions)),
)
claim("without it, a row stays at length 1", all(abs(row - 1) < 0.1 for row in rows))

# %% [markdown]
# Drawn with your own version, if it passes. Word and position both grow with $\sqrt{d_{\text{model}}}$, so the factor
# fits every size of model. Without it, the wider the model, the more the position drowns the word.

# %% [markdown]
# ## The feed-forward network
#
# Attention averages. What it returns is a weighted sum of values, and a weighted sum cannot decide "if this and not
# that". This is what the second sub-layer is for: the {{term feed-forward network}}, a small network with one hidden
# layer, applied to each position by itself, everywhere with the same weights. It makes the vector wider (in the paper
# 512 → 2048), sets what is negative to zero ({{term ReLU}}), drops a few of these hidden values in training
# ({{term dropout}}, see below), and makes the vector narrow again.
#
# Why the ReLU in the middle? Without it there are two matrices in a row, and two matrices in a row are one:

# %%
torch.manual_seed(0)
w_1, w_2 = nn.Linear(8, 32), nn.Linear(32, 8)
x = torch.randn(5, 8)
one = nn.Linear(8, 8)
with torch.no_grad():
    one.weight.copy_(w_2.weight @ w_1.weight)
    one.bias.copy_(w_2.weight @ w_1.bias + w_2.bias)
print("two Linears are one Linear:     ", torch.allclose(w_2(w_1(x)), one(x), atol=1e-6))
print("with a ReLU in between:         ", torch.allclose(w_2(torch.relu(w_1(x))), one(x), atol=1e-6))

# %% claims
claim("two Linears are one", torch.allclose(w_2(w_1(x)), one(x), atol=1e-5))
claim("with a ReLU they are not", not torch.allclose(w_2(torch.relu(w_1(x))), one(x), atol=0.01))

# %% [markdown]
# $$\operatorname{FFN}(x) = \max(0,\; x W_1 + b_1)\, W_2 + b_2$$
#
# {{exercise FeedForward}}


# %% exercise FeedForward
class FeedForward(nn.Module):
    """max(0, x W_1 + b_1) W_2 + b_2, with dropout on the hidden values max(0, x W_1 + b_1).

    Parameters: w_1 from d_model to d_ff and w_2 back, each with its bias, such as self.w_1 = nn.Linear(…).
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0):
        super().__init__()
        ### BEGIN SOLUTION
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, time, d_model). Returns: (batch, time, d_model)."""
        ### BEGIN SOLUTION
        hidden = torch.relu(self.w_1(x))  # (batch, time, d_ff)
        hidden = self.dropout(hidden)
        return self.w_2(hidden)  # (batch, time, d_model)
        ### END SOLUTION


# %% check FeedForward
check(FeedForward)


# %% [markdown]
# What can it do, and how wide must it be? Here your network learns the curve $\sin 3x$ from examples, with one number
# going in and one coming out. Each hidden value can put one bend into the line.


# %%
def fit(network, target, steps=300):
    """Train the network to turn `inputs` into `target`; returns the last mean squared error."""
    optimiser = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(steps):
        loss = (network(inputs) - target).pow(2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return loss.item()


torch.manual_seed(0)
feed_forward_class = yours("FeedForward", FeedForward)
inputs = torch.linspace(-2, 2, 200)[:, None]  # (200, 1)
networks = {f"d_ff = {d_ff}": feed_forward_class(1, d_ff) for d_ff in (4, 16, 64)}
networks = {"d_ff = 64, no ReLU": nn.Sequential(nn.Linear(1, 64), nn.Linear(64, 1)), **networks}
errors = {name: fit(network, torch.sin(3 * inputs)) for name, network in bar(list(networks.items()), "fitting")}

# %% figure Feed-forward networks of several widths
figure, ax = plt.subplots(figsize=(7.5, 3.2))
ax.plot(inputs, torch.sin(3 * inputs), color="0.75", linewidth=5, label="sin 3x")
for (name, network), colour, style in zip(networks.items(), COLOURS, ("-", "--", "-.", ":")):
    ax.plot(inputs, network(inputs).detach(), style, color=colour, label=f"{name}: error {errors[name]:.3f}")
ax.set(xlabel="x", ylabel="output")
ax.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %% claims
claim("without the ReLU it is a straight line", errors["d_ff = 64, no ReLU"] > 0.3)
claim("wider is better", errors["d_ff = 64"] < 0.5 * errors["d_ff = 16"] < 0.5 * errors["d_ff = 4"])

# %% [markdown]
# Without the ReLU it is a straight line, however wide. With it, wider is better. A network of this kind can approximate
# any continuous function if it is wide enough. That is a theorem; how wide, and whether training finds it, the theorem
# does not say.
#
# In the paper the inner width {{term d_ff}} is $4\, d_{\text{model}}$. The 4 is a choice: Vaswani et al. tried 1024,
# 2048 and 4096 for $d_{\text{model}} = 512$ and found wider ones better. The price: with the factor 4 the two matrices
# hold $8\, d_{\text{model}}^2$ numbers, twice as many as the $4\, d_{\text{model}}^2$ of the attention beside them. (A
# hidden layer narrower than the input is allowed, too.)
#
# ### GELU and SwiGLU
#
# Newer models have replaced the ReLU. **{{term GELU}}** is a ReLU with a rounded corner: $x$ times the probability that
# a normally distributed number is below $x$ (BERT, GPT-2). **{{term SwiGLU}}** has two Linears side by side; one of
# them, through the similar curve $\operatorname{SiLU}(x) = x \cdot \sigma(x)$ with $\sigma(x) = 1 / (1 + e^{-x})$, acts
# as a *gate* that says how much of the other goes through (Llama and many models since):
#
# $$\operatorname{SwiGLU}(x) = \bigl(\operatorname{SiLU}(x W_1) \odot x W_3\bigr)\, W_2$$
#
# That is three matrices instead of two, so for the same number of parameters the hidden layer is made narrower, by a
# factor of about 2/3. Let us compare the three on two targets: the smooth $\sin 3x$ and $\bigl||x| - 1\bigr|$, which
# has corners. Each network has 121 parameters, biases included (the formula leaves them out).


# %%
class GeluFeedForward(reference.FeedForward):
    def forward(self, x: Tensor) -> Tensor:
        return self.w_2(self.dropout(F.gelu(self.w_1(x))))


class SwiGLU(nn.Module):
    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.w_1, self.w_3 = nn.Linear(d_model, d_ff), nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.w_2(F.silu(self.w_1(x)) * self.w_3(x))


kinds = {
    "ReLU": lambda: reference.FeedForward(1, 40),
    "GELU": lambda: GeluFeedForward(1, 40),
    "SwiGLU": lambda: SwiGLU(1, 24),
}
targets = {"sin 3x": torch.sin(3 * inputs), "||x| - 1|": (inputs.abs() - 1).abs()}
found = {(target, kind): [] for target in targets for kind in kinds}
for seed in bar(range(3), "fitting"):
    for target, kind in found:
        torch.manual_seed(seed)
        found[target, kind].append(fit(kinds[kind](), targets[target]))
for (target, kind), three in found.items():
    print(f"{target:10} {kind:7} errors of three seeds: {', '.join(f'{error:.5f}' for error in three)}")

# %% claims
claim("all have 121 parameters", {sum(p.numel() for p in make().parameters()) for make in kinds.values()} == {121})
claim("GELU wins on the smooth curve", max(found["sin 3x", "GELU"]) < min(found["sin 3x", "ReLU"]))
claim(
    "ReLU wins on corners",
    max(found["||x| - 1|", "ReLU"]) < min(found["||x| - 1|", "GELU"] + found["||x| - 1|", "SwiGLU"]),
)

# %% figure Three curves
grid = torch.linspace(-4, 4, 200)
figure, ax = plt.subplots(figsize=(5.5, 2.8))
for curve, name, style in ((F.relu, "ReLU", "-"), (F.gelu, "GELU", "--"), (F.silu, "SiLU (the gate of SwiGLU)", ":")):
    ax.plot(grid, curve(grid), style, label=name)
ax.set(xlabel="x", ylabel="output", ylim=(-0.6, 4))
ax.legend(frameon=False, fontsize=8)
plt.show()

# %% [markdown]
# On the smooth curve GELU beats ReLU with every seed, on the corners ReLU wins: no activation is best for every target.
# And a curve of one number says little about language. There the evidence is large trainings: Shazeer (2020) compared
# gated variants at equal size and found them somewhat better. He offers no explanation.
#
# ### The same thing as two convolutions
#
# A convolution of **width 1** looks at one position and no neighbour: for each position it is a Linear. So the network
# is also two convolutions of width 1, and some programs write it this way. Only the axes are in another order: `Conv1d`
# wants the features in the middle.
#
# **Quiz.** In such a program the shape after each line is given in a comment. Which comment is wrong?
#
# ```
# out = conv1(x.transpose(1, 2))          # (N, d_model, L) -> (N, d_ff, L)
# out = conv2(relu(out)).transpose(1, 2)  # (N, d_ff, L) -> (N, d_model, L)
# ```

# %%
torch.manual_seed(0)
linear = reference.FeedForward(8, 20)
conv1, conv2 = nn.Conv1d(8, 20, kernel_size=1), nn.Conv1d(20, 8, kernel_size=1)
with torch.no_grad():
    conv1.weight.copy_(linear.w_1.weight.unsqueeze(-1))  # (d_ff, d_model, 1)
    conv1.bias.copy_(linear.w_1.bias)
    conv2.weight.copy_(linear.w_2.weight.unsqueeze(-1))
    conv2.bias.copy_(linear.w_2.bias)

x = torch.randn(2, 5, 8)  # N = 2, L = 5, d_model = 8
out = conv2(torch.relu(conv1(x.transpose(1, 2)))).transpose(1, 2)
print("shape:", tuple(out.shape), "  equal to two Linears:", torch.allclose(out, linear(x), atol=1e-6))

# %% claims
claim("convolutions of width 1 are Linears", torch.allclose(out, linear(x), atol=1e-5))

# %% [markdown]
# The second comment: after the last `transpose` it is (N, L, d_model), here (2, 5, 8).

# %% [markdown]
# ## Normalisation
#
# Why normalise at all? Take the simplest model there is, $\hat y = w_1 x_1 + w_2 x_2$, and let $x_2$ be five times as
# large as $x_1$. Then the error is a long valley over $(w_1, w_2)$. Gradient descent has one step size for both
# directions, and the largest step that is stable in the steep direction is far too small for the flat one.

# %% figure Gradient descent in a long valley and in a round one
torch.manual_seed(0)
features = torch.randn(500, 2) * torch.tensor([1.0, 5.0])
target_weights = torch.tensor([2.0, 1.0])


def descend(features, target_weights, steps=15):
    """Gradient descent on the mean squared error, with a step size just below the largest that is stable."""
    targets = features @ target_weights
    curvature = 2 * features.T @ features / len(features)
    rate = 1.7 / torch.linalg.eigvalsh(curvature).max()
    path = [target_weights + torch.tensor([-2.0, 1.0])]
    for _ in range(steps):
        error = features @ path[-1] - targets
        path.append(path[-1] - rate * 2 * features.T @ error / len(features))
    return torch.stack(path), curvature


figure, axes = plt.subplots(1, 2, figsize=(9, 3.4))
distances = []
for ax, data, name in [
    (axes[0], features, "x₂ is five times as large"),
    (axes[1], features / features.std(dim=0), "normalised"),
]:
    path, curvature = descend(data, target_weights)
    w_1, w_2 = torch.meshgrid(torch.linspace(-0.8, 4.8, 80), torch.linspace(-0.6, 2.6, 80), indexing="xy")
    offset = torch.stack([w_1, w_2], dim=-1) - target_weights
    loss = torch.einsum("...i,ij,...j->...", offset, curvature, offset) / 2
    ax.contour(w_1, w_2, loss, levels=12, cmap="cividis", linewidths=0.8)
    ax.plot(*path.T, "o-", color=COLOURS[1], markersize=3, label="15 steps")
    ax.plot(*target_weights, "*", color=COLOURS[0], markersize=12, label="minimum")
    distances.append((path[-1] - target_weights).norm().item())
    ax.set(title=f"{name}\ndistance left: {distances[-1]:.3f}", xlabel="w₁", ylabel="w₂")
    ax.legend(fontsize=8, loc="upper right", framealpha=1)
plt.show()

# %% claims
claim("normalised inputs get much closer in 15 steps", distances[1] < 0.2 * distances[0])

# %% [markdown]
# On the left the path swings across the valley and moves only slowly along it. On the right every step shrinks the
# distance by about the same factor.
#
# That is about the inputs of one layer. In a deep network every layer's output is the next one's input, and the norms
# keep all of them in a steady range. The older explanation, that norms cure an "internal covariate shift", is
# disputed: Santurkar et al. (2018) put such a shift back in after a norm on purpose, and the norm helped all the same.
#
# (This is *normalisation*. It is sometimes confused with regularisation, which means measures against
# {{term overfitting}}, such as dropout.)
#
# ### LayerNorm
#
# {{term LayerNorm}} takes **one position** and looks at its $d = d_{\text{model}}$ features. It subtracts their mean
# and divides by their standard deviation. Then each feature gets a gain $\gamma$ and a bias $\beta$ of its own, which
# are learned, so that the network can make a feature as large or as small as it needs:
#
# $$\operatorname{LN}(x) = \gamma \odot \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta \qquad
# \mu = \frac1d \sum_i x_i \qquad \sigma^2 = \frac1d \sum_i (x_i - \mu)^2$$
#
# By hand: $x = (1, 2, 3, 6)$ has mean 3. The differences are $-2, -1, 0, 3$, their squares add up to 14, and the
# variance is $14 / 4 = 3.5$. Its root is 1.871. So the result is $(-1.069, -0.535, 0, 1.604)$. (A common slip is to
# divide by the variance and not by its root.)
#
# The small $\varepsilon$ keeps the root away from zero if all features are equal. It is **under** the root.
#
# In this exercise and the next you write the formula yourself: torch's own norms earn nothing. The grader looks for
# them in your code, and it also refuses what could hide one, such as `exec`, `__dict__`, or `getattr` with a computed
# name.
#
# {{exercise LayerNorm}}


# %% exercise LayerNorm
class LayerNorm(nn.Module):
    """gain · (x - mean) / √(variance + eps) + bias, with mean and variance of each position's own features.

    The variance divides by d_model (not d_model - 1). Parameters: self.gain (d_model,), ones at the start, and
    self.bias (d_model,), zeros at the start. Build it yourself, without torch's own norms.
    """

    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        ### BEGIN SOLUTION
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """x: (..., d_model), with any number of axes in front. Returns: the same shape."""
        ### BEGIN SOLUTION
        mean = x.mean(dim=-1, keepdim=True)  # (..., 1)
        centred = x - mean
        variance = centred.pow(2).mean(dim=-1, keepdim=True)  # (..., 1)
        normalised = centred / torch.sqrt(variance + self.eps)
        return self.gain * normalised + self.bias
        ### END SOLUTION


# %% check LayerNorm
check(LayerNorm)


# %% [markdown]
# **Spot the mistake.** Many public programs have this norm. It trains, and nobody notices. Where does it differ from
# the formula?
#
# ```
# mean = x.mean(-1, keepdim=True)
# std = x.std(-1, keepdim=True)
# return self.alpha * (x - mean) / (std + self.eps) + self.bias
# ```
#
# <details><summary>Answer</summary>
#
# In two places. `x.std` divides by $d - 1$ and not by $d$ (torch does so unless told `correction=0`). And `eps`
# is beside the root and not under it. The first makes every value smaller by the factor $\sqrt{(d-1)/d}$ (next
# cell). That is a lot for small $d$ and hardly anything for 512, which is why nobody notices. With $d = 1$ it is
# $0/0$.
#
# </details>


# %%
def public_norm(x, eps=1e-6):
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps)


torch.manual_seed(0)
ratios = {}
for d in (3, 8, 512):
    x = torch.randn(100, d)
    right, theirs = F.layer_norm(x, (d,)), public_norm(x)
    ratios[d] = ((theirs * right).sum() / right.pow(2).sum()).item()
    print(f"d = {d:3}: {ratios[d]:.4f} times the right value, largest difference {(theirs - right).abs().max():.4f}")

# %% claims
by_hand = reference.LayerNorm(4)(torch.tensor([1.0, 2.0, 3.0, 6.0]))
claim("LayerNorm by hand", torch.allclose(by_hand, torch.tensor([-1.069, -0.535, 0.0, 1.604]), atol=1e-3))
claim("smaller by the root of (d-1)/d", all(abs(ratio - math.sqrt((d - 1) / d)) < 0.002 for d, ratio in ratios.items()))

# %% [markdown]
# **Per position, not per feature.** "LayerNorm gives each dimension mean zero and variance one" is a common slip. It
# gives each *position* mean zero and variance one, over its dimensions. A single dimension, looked at over many
# positions, may have any mean:

# %% figure What LayerNorm makes zero
torch.manual_seed(0)
x = torch.randn(6, 8) + torch.linspace(-1, 1, 8)  # later features are larger
out = reference.LayerNorm(8)(x).detach()
figure, axes = plt.subplots(1, 2, figsize=(9, 3))
for ax, values, name in [(axes[0], x, "x"), (axes[1], out, "LayerNorm(x)")]:
    show_matrix(values, name, rows="position", columns="feature", diverging=True, limits=(-3, 3), ax=ax)
plt.show()
print("mean of each position:", [f"{abs(m):.0e}" for m in out.mean(dim=1).tolist()])
print("mean of each feature: ", [f"{m:.2f}" for m in out.mean(dim=0).tolist()])

# %% claims
claim(
    "positions have mean 0, features do not",
    bool(out.mean(dim=1).abs().max() < 1e-5 < 0.3 < out.mean(dim=0).abs().max()),
)

# %% [markdown]
# ### RMSNorm
#
# Zhang and Sennrich (2019) left out the mean and divided by the **root mean square** only. {{term RMSNorm}} has a
# gain and no bias. It needs fewer operations, it trained as well in their experiments, and many large language models
# use it.
#
# $$\operatorname{RMSNorm}(x) = \gamma \odot \frac{x}{\sqrt{\frac1d \sum_i x_i^2 + \varepsilon}}$$
#
# By hand: $x = (1, 1, 3, 5)$ has the squares 1, 1, 9, 25, whose mean is 9. Its root is 3, so the result is
# $(\frac13, \frac13, 1, \frac53)$.
#
# {{exercise RMSNorm}}


# %% exercise RMSNorm
class RMSNorm(nn.Module):
    """gain · x / √(mean of x² + eps), with the mean over each position's own features.

    Parameters: self.gain (d_model,), ones at the start. Build it yourself, without torch's own norms.
    """

    def __init__(self, d_model: int, eps: float = 1e-6):
        super().__init__()
        ### BEGIN SOLUTION
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """x: (..., d_model), with any number of axes in front. Returns: the same shape."""
        ### BEGIN SOLUTION
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)  # (..., 1)
        return self.gain * x / torch.sqrt(mean_square + self.eps)
        ### END SOLUTION


# %% check RMSNorm
check(RMSNorm)


# %% [markdown]
# What the two do to points with two features: LayerNorm first moves them onto a line (mean zero), so with two features
# only two points are left. RMSNorm moves them onto a circle and keeps their direction.

# %% figure LayerNorm and RMSNorm on points with two features
torch.manual_seed(0)
points = torch.randn(40, 2) * torch.tensor([1.0, 0.6]) + torch.tensor([0.8, 0.3])
figure, axes = plt.subplots(1, 2, figsize=(7.5, 3.5))
for ax, norm in zip(axes, (reference.LayerNorm(2), reference.RMSNorm(2))):
    moved = norm(points).detach()
    for a, b in zip(points, moved):
        ax.plot([a[0], b[0]], [a[1], b[1]], color="0.85", linewidth=0.8, zorder=0)
    ax.scatter(*points.T, s=14, color=COLOURS[0], label="x")
    ax.scatter(*moved.T, s=22, color=COLOURS[1], marker="s", label=type(norm).__name__)
    ax.set(title=type(norm).__name__, xlabel="feature 0", ylabel="feature 1", xlim=(-2.4, 3.2), ylim=(-2, 3))
    ax.set_aspect("equal")
    ax.legend(frameon=False, fontsize=8, loc="upper left")
plt.show()

# %% claims
by_hand = reference.RMSNorm(4)(torch.tensor([1.0, 1.0, 3.0, 5.0]))
claim("RMSNorm by hand", torch.allclose(by_hand, torch.tensor([1 / 3, 1 / 3, 1.0, 5 / 3]), atol=1e-3))
two, round_ = reference.LayerNorm(2)(points), reference.RMSNorm(2)(points)
claim("LayerNorm leaves two points, but for eps", (two[:, 0] + two[:, 1]).abs().max() < 1e-5 and two.abs().min() > 0.85)
claim("RMSNorm leaves a circle", (round_.norm(dim=1) - 2**0.5).abs().max() < 1e-3)

# %% [markdown]
# ### Why not BatchNorm?
#
# In image networks the usual norm is {{term batch normalisation}}. It takes one *feature* and normalises it over all
# examples and all places. On `(batch, time, d_model)` that means one mean and one variance for each feature, over batch
# and time. But the sentences of a batch have different lengths, and the rest is padding.
#
# Take two sentences, one of length 1 and one of length 10. There are 20 vectors, and only 11 of them are real. Suppose
# that the real ones have mean 3:

# %%
torch.manual_seed(0)
lengths = torch.tensor([1, 10])
mask = torch.arange(10) < lengths[:, None]  # (2, 10), True on real positions
x = (torch.randn(2, 10, 4) + 3.0) * mask[..., None]  # padding is zero
batch_norm = nn.BatchNorm1d(4, momentum=1.0)  # momentum 1: keep the statistics of the last batch
batch_norm(x.transpose(1, 2))
print("real vectors:", int(mask.sum()), "of", mask.numel())
print("mean that BatchNorm takes:    ", batch_norm.running_mean)
print("mean of the real vectors:     ", x[mask].mean(dim=0))

# %% claims
claim(
    "it is off by the factor 11/20", torch.allclose(batch_norm.running_mean, x[mask].mean(dim=0) * 11 / 20, atol=1e-4)
)

# %% [markdown]
# It is off by the factor 11/20. So padding has to be left out, as in wav2vec-U 2.0 (Liu et al. 2022), for example.
# With $n$ real positions in the whole batch, and sums over those alone:
#
# $$\mu_j = \frac1n \sum_{\text{real } (b,t)} x_{btj} \qquad\qquad
# \sigma_j^2 = \frac1n \sum_{\text{real } (b,t)} (x_{btj} - \mu_j)^2$$
#
# {{exercise masked_batch_statistics}}


# %% exercise masked_batch_statistics
def masked_batch_statistics(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of each feature over all real positions of the batch; every position has the same weight.

    x: (batch, time, d_model). mask: (batch, time), bool, True on real positions, at least one of them.
    Returns: (mean, variance), each (d_model,). The variance divides by the number of real positions. Whatever stands
    in the padding plays no part, and gradients reach the real positions only.
    """
    ### BEGIN SOLUTION
    real = mask.unsqueeze(-1)  # (batch, time, 1)
    count = real.sum()
    mean = x.masked_fill(~real, 0.0).sum(dim=(0, 1)) / count  # (d_model,)
    centred = (x - mean).masked_fill(~real, 0.0)  # hide padding again: minus the mean it is no longer 0
    variance = centred.pow(2).sum(dim=(0, 1)) / count
    return mean, variance
    ### END SOLUTION


# %% check masked_batch_statistics
check(masked_batch_statistics)


# %% [markdown]
# With this, padding does no harm any more. But something else is left, and no mask cures it: the result for one
# sentence depends on the other sentences of its batch.

# %%
torch.manual_seed(0)
sentence = torch.randn(1, 4, 6)
everything = torch.ones(2, 4, dtype=torch.bool)
firsts = []
for neighbour in (torch.randn(1, 4, 6), torch.randn(1, 4, 6) + 2):
    batch = torch.cat([sentence, neighbour])
    mean, variance = reference.masked_batch_statistics(batch, everything)
    by_batch = (batch - mean) / torch.sqrt(variance + 1e-5)
    by_layer = reference.LayerNorm(6)(batch).detach()
    firsts.append((by_batch[0, 0, 0].item(), by_layer[0, 0, 0].item()))
    print(f"first number of the sentence: BatchNorm {firsts[-1][0]:6.3f}   LayerNorm {firsts[-1][1]:6.3f}")

# %% claims
claim("the neighbour changes BatchNorm's result", abs(firsts[0][0] - firsts[1][0]) > 0.1)
claim("it does not change LayerNorm's", abs(firsts[0][1] - firsts[1][1]) < 1e-6)

# %% [markdown]
# LayerNorm does not look at the batch at all, so neither padding nor neighbours can affect it. There are more ways to
# choose what shares a mean. For the number marked ×, yellow shows the numbers that its norm looks at:

# %% figure Which numbers share a mean and a variance
batch, time, d_model = 2, 4, 6
rows = [f"{b}, {t}" + (" pad" if (b, t) in {(1, 2), (1, 3)} else "") for b in range(batch) for t in range(time)]
numbers = torch.zeros(4, batch, time, d_model)
numbers[0, :, :, 2] = 1  # BatchNorm: one feature, all positions of the batch
numbers[1, 0, 1, :] = 1  # LayerNorm: one position, all features
numbers[2, 0, :, 2] = 1  # InstanceNorm: one feature, all positions of one sentence
numbers[3, 0, :, 0:3] = 1  # GroupNorm with two groups: half of the features, all positions of one sentence
figure, axes = plt.subplots(1, 4, figsize=(9, 3.2), sharey=True)
for ax, chosen, name in zip(axes, numbers, ("BatchNorm", "LayerNorm", "InstanceNorm", "GroupNorm\n(2 groups)")):
    show_matrix(chosen.flatten(0, 1), name, rows="", columns="feature", row_names=rows, numbers=False, ax=ax)
    ax.text(2, 1, "×", ha="center", va="center", color="black", fontsize=13, fontweight="bold")
    ax.axhline(3.5, color="white", linewidth=1.5)
axes[0].set_ylabel("sentence, position")
plt.show()

# %% [markdown]
# BatchNorm's column runs through the other sentence and through its padding. InstanceNorm and GroupNorm stay in the
# sentence, but mix its positions. Only LayerNorm (and RMSNorm) stays inside one row.
#
# {{question why_not_batch_norm}}
#
# A colleague replaces the LayerNorms of a translator by BatchNorm, with padding masked out as in your exercise.
# Training works. Then one user translates one sentence at a time and another a hundred at once. In two or three
# sentences: what can go wrong that could not with LayerNorm, and why does the mask not help?

# %% answer why_not_batch_norm 2 [markdown]
# ### BEGIN SOLUTION
# Batch statistics make each sentence's result depend on the other sentences of its batch: the same sentence can be
# translated differently alone and among others (and with one single word, the variance over the batch is zero). If
# running averages are used instead, training and use differ. The mask only removes padding from the statistics; the
# neighbours' real words are still in them. LayerNorm takes its statistics from the position's own features, so batch
# size, neighbours and padding make no difference.
#
# **Rubric**
#
# - 1 point: the result for a sentence depends on the others in its batch, or on running averages that differ from
#   training
# - 1 point: the mask removes padding only, and the neighbours' real words stay in the statistics
# ### END SOLUTION

# %% [markdown]
# ## Residual connections
#
# A deep network has a problem: on its way back, the gradient is multiplied by one matrix per layer. Does it arrive? An
# article says that "linear maps preserve the gradient perfectly". Let us see. Here are 24 Linears of size 64, just
# built: one run through the plain layers, and two that are explained below.


# %%
def gradient_by_depth(step, depth=24, d_model=64):
    """Length of the gradient with respect to the input of each layer, for one position."""
    torch.manual_seed(0)
    layers = [nn.Linear(d_model, d_model) for _ in range(depth)]
    hidden = [torch.randn(1, d_model, requires_grad=True)]
    for layer in layers:
        hidden.append(step(layer, hidden[-1]))
    return [g.norm().item() for g in torch.autograd.grad(hidden[-1].sum(), hidden)]


plain = gradient_by_depth(lambda layer, x: layer(x))
residual = gradient_by_depth(lambda layer, x: x + layer(x))
normed = gradient_by_depth(lambda layer, x: x + layer(F.layer_norm(x, x.shape[-1:])))
print(f"gradient at the output: {plain[-1]:.0f}")
print(f"gradient at the input: plain {plain[0]:.1e}, residual {residual[0]:.0f}, residual with norm {normed[0]:.0f}")

# %% figure The gradient on its way back to the input
figure, ax = plt.subplots(figsize=(7, 3.4))
ax.semilogy(plain, "o-", markersize=3, label="layer(x)")
ax.semilogy(residual, "s-", markersize=3, label="x + layer(x)")
ax.semilogy(normed, "^-", markersize=3, label="x + layer(norm(x))")
ax.set(title="24 Linears", xlabel="layer", ylabel="length of the gradient")
ax.legend(frameon=False, fontsize=8)
plt.show()

# %% claims
claim("the gradient starts with length 8", abs(plain[-1] - 8) < 1e-3)
claim("each plain layer keeps about 0.6 of it", 0.5 < (plain[0] / plain[-1]) ** (1 / 24) < 0.65)
claim("plain: about a millionth arrives", 3e-7 < plain[0] / plain[-1] < 3e-6)
claim("residual: it grows to about 200, with a norm much less", 150 < residual[0] < 260 and 8 < normed[0] < 40)

# %% [markdown]
# Read it from right to left, as the gradient goes. It starts with length 8, and about a millionth of that arrives
# through plain Linears. (A Linear starts with numbers so small that each layer shrinks what passes to about 0.6 of
# it: linear, but far from lossless.)
#
# The remedy is to let each layer *add* to what is there instead of replacing it, a {{term residual connection}}:
#
# $$x \;\mapsto\; x + f(x)$$
#
# The layer then learns the *difference*, and if it has nothing to say it can say 0. On the way back the gradient has
# a path with nothing on it: the derivative of $x + f(x)$ is $1 + f'(x)$ (squares). The price is that the sums grow:
# here about 200 arrives where 8 started. That is where the norm comes in (triangles), and there are two places for it.


# %% figure Post-norm and pre-norm
def draw_block(ax, title, steps, branch):
    """Boxes from the bottom up; the residual connection leaves below the boxes of the branch and ends at the plus."""
    ax.plot([0, 0], [-0.7, len(steps) - 0.1], color="black", linewidth=1, zorder=0)
    for y, (name, colour) in enumerate(steps):
        ax.text(0, y, name, ha="center", va="center", bbox={"boxstyle": "round,pad=0.45", "facecolor": colour})
    plus = [name for name, _ in steps].index("+")
    ax.plot([0, 1.3, 1.3], [-0.45, -0.45, plus], color=COLOURS[0], linewidth=1.6)
    ax.annotate("", (0.22, plus), (1.3, plus), arrowprops={"arrowstyle": "->", "color": COLOURS[0], "lw": 1.6})
    ax.text(1.38, plus / 2, branch, color=COLOURS[0], va="center", fontsize=8)
    ax.text(0, -0.9, "x", ha="center", va="center")
    ax.set(title=title, xlim=(-1.4, 3.2), ylim=(-1.1, 3.0))
    ax.axis("off")


figure, axes = plt.subplots(1, 2, figsize=(8, 3.2))
f, norm = ("sub-layer f", "0.9"), ("norm", PARTS["norm"])
draw_block(axes[0], "post-norm: norm(x + f(x))", [f, ("+", "white"), norm], "the sum is\nnormalised")
draw_block(axes[1], "pre-norm: x + f(norm(x))", [norm, f, ("+", "white")], "this path\nstays free")
plt.show()

# %% [markdown]
# ### {{term post-norm|Post-norm}}: as in the paper
#
# $$y = \operatorname{norm}(x + f(x))$$
#
# Here $f$ is any sub-layer, attention or feed-forward. Each sub-layer of the original Transformer is wrapped like this.
#
# {{exercise residual_post_norm}}


# %% exercise residual_post_norm
def residual_post_norm(x: Tensor, sublayer: Callable[[Tensor], Tensor], norm: Callable[[Tensor], Tensor]) -> Tensor:
    """Add what the sub-layer makes of x to x, and normalise the sum.

    x: (..., d_model). sublayer, norm: functions of one tensor that keep its shape. Returns: the shape of x.
    """
    ### BEGIN SOLUTION
    return norm(x + sublayer(x))
    ### END SOLUTION


# %% check residual_post_norm
check(residual_post_norm)


# %% [markdown]
# ### {{term pre-norm|Pre-norm}}: the path stays free
#
# In post-norm every path from the last layer to the first runs through every norm. If the norm is moved inside the
# branch, in front of the sub-layer, the path around it is free:
#
# $$y = x + f(\operatorname{norm}(x))$$
#
# Since the sum itself is never normalised now, it grows from layer to layer. So a pre-norm model gets **one more norm
# after its last layer**. Without it the output layer sees large numbers.
#
# {{exercise residual_pre_norm}}


# %% exercise residual_pre_norm
def residual_pre_norm(x: Tensor, sublayer: Callable[[Tensor], Tensor], norm: Callable[[Tensor], Tensor]) -> Tensor:
    """Normalise x, let the sub-layer work on that, and add the result to x itself.

    x: (..., d_model). sublayer, norm: functions of one tensor that keep its shape. Returns: the shape of x.
    """
    ### BEGIN SOLUTION
    return x + sublayer(norm(x))
    ### END SOLUTION


# %% check residual_pre_norm
check(residual_pre_norm)


# %% [markdown]
# Now measure both. A stack of feed-forward sub-layers, weights initialised by Xavier's rule (variance
# $2 / (\text{inputs} + \text{outputs})$), a random classification task, one backward pass, nothing trained yet. How
# large is the gradient of $W_2$ in each layer?


# %%
class Stack(nn.Module):
    """`depth` feed-forward sub-layers in one of the two arrangements, and an output layer."""

    def __init__(self, path, depth, d_model=32, classes=8):
        super().__init__()
        self.path = path
        self.sublayers = nn.ModuleList([reference.FeedForward(d_model, 4 * d_model) for _ in range(depth)])
        self.norms = nn.ModuleList([reference.LayerNorm(d_model) for _ in range(depth)])
        self.last_norm = reference.LayerNorm(d_model) if path is reference.residual_pre_norm else nn.Identity()
        self.output = nn.Linear(d_model, classes)
        for parameter in self.sublayers.parameters():
            nn.init.xavier_uniform_(parameter) if parameter.dim() == 2 else nn.init.zeros_(parameter)

    def forward(self, x):
        for sublayer, norm in zip(self.sublayers, self.norms):
            x = self.path(x, sublayer, norm)
        return self.output(self.last_norm(x))


def gradients(path, depth, seeds=8):
    """Length of the gradient of W_2 in each layer of a fresh stack, averaged over some stacks."""
    found = []
    for seed in range(seeds):
        torch.manual_seed(seed)
        stack = Stack(path, depth).to(device)
        inputs, labels = torch.randn(64, 32).to(device), torch.randint(8, (64,)).to(device)
        F.cross_entropy(stack(inputs), labels).backward()
        found.append(torch.stack([sublayer.w_2.weight.grad.norm() for sublayer in stack.sublayers]))
    return torch.stack(found).mean(dim=0).cpu()


paths = {"post-norm": reference.residual_post_norm, "pre-norm": reference.residual_pre_norm}
depths = [2, 4, 8, 16, 32]
by_layer = {name: gradients(path, 24) for name, path in paths.items()}
last = {name: [gradients(path, depth)[-1].item() for depth in bar(depths, name)] for name, path in paths.items()}

# %% figure The gradients of fresh stacks
figure, axes = plt.subplots(1, 2, figsize=(9, 3.3))
for name, colour, marker in zip(paths, COLOURS, "os"):
    axes[0].plot(range(24), by_layer[name], marker + "-", color=colour, markersize=4, label=name)
    axes[1].semilogx(depths, last[name], marker + "-", color=colour, markersize=4, label=name)
axes[0].set(title="24 sub-layers", xlabel="sub-layer", ylabel="gradient of W₂")
axes[1].set(title="The last sub-layer alone", xlabel="number of sub-layers", ylabel="gradient of W₂")
axes[1].set_xticks(depths, depths)
axes[1].minorticks_off()
for ax in axes:
    ax.set_ylim(0, 0.65)
    ax.legend(frameon=False, fontsize=8)
plt.show()

# %% claims
claim(
    "post-norm: rises towards the output",
    bool(by_layer["post-norm"][-4:].mean() > 1.3 * by_layer["post-norm"][:4].mean()),
)
claim(
    "pre-norm: falls towards the output", bool(by_layer["pre-norm"][-4:].mean() < 0.8 * by_layer["pre-norm"][:4].mean())
)
claim(
    "depth makes the last layer's smaller only in pre-norm",
    last["post-norm"][-1] > 0.8 * last["post-norm"][0] and last["pre-norm"][-1] < 0.5 * last["pre-norm"][0],
)

# %% [markdown]
# In post-norm the gradient *rises* towards the output, and depth does not make the last layer's smaller. In pre-norm
# it *falls* towards the output, and the last layer's becomes smaller with depth. Xiong et al. (2020) found this and
# concluded: with post-norm the first steps of training are too large for the last layers, unless the
# {{term learning rate}} starts small ({{term warm-up}}). Does it matter? Train stacks of 24 and of 6 sub-layers:


# %%
def train(path, warmup, depth, name, steps=200, rate=3e-3):
    """The losses of a stack that learns to imitate a small fixed network."""
    torch.manual_seed(0)
    teacher = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 8)).to(device)
    for parameter in teacher.parameters():
        parameter.data.mul_(3)
    stack = Stack(path, depth).to(device)
    optimiser = torch.optim.Adam(stack.parameters(), lr=rate)
    losses = []
    for step in bar(range(1, steps + 1), name):
        optimiser.param_groups[0]["lr"] = rate * min(1.0, step / warmup)
        x = torch.randn(64, 32).to(device)
        loss = F.cross_entropy(stack(x), teacher(x).argmax(dim=-1))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return torch.tensor(losses)


runs = {
    "post-norm, no warm-up": ("post-norm", 1),
    "post-norm, 100 steps of warm-up": ("post-norm", 100),
    "pre-norm, no warm-up": ("pre-norm", 1),
}
losses = {
    (depth, name): train(paths[kind], warmup, depth, f"{depth} sub-layers, {name}")
    for depth in (24, 6)
    for name, (kind, warmup) in runs.items()
}

# %% figure Training with post-norm and pre-norm
figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), sharey=True)
ends = {}
for ax, depth in zip(axes, (24, 6)):
    for name, style in zip(runs, ("-", "--", "-.")):
        smooth = losses[depth, name].unfold(0, 15, 1).mean(dim=-1)
        ends[depth, name] = smooth[-1].item()
        ax.plot(range(15, 15 + len(smooth)), smooth, style, label=f"{name}: {smooth[-1]:.2f}")
    ax.axhline(math.log(8), color="0.6", linewidth=1, label=f"guessing: ln 8 = {math.log(8):.2f}")
    ax.set(title=f"{depth} sub-layers, learning rate 0.003", xlabel="step", ylim=(0.8, 2.8))
    ax.legend(frameon=False, fontsize=8)
axes[0].set_ylabel("loss, mean of 15 steps")
plt.show()

# %% claims
without, warmed, pre = runs
claim("24 sub-layers: post-norm without warm-up hardly learns", ends[24, without] > 0.85 * math.log(8))
claim("24 sub-layers: pre-norm learns without it", ends[24, pre] < 0.6 * math.log(8))
claim("24 sub-layers: warm-up helps post-norm", ends[24, warmed] < ends[24, without] - 0.2)
claim(
    "6 sub-layers: all three end alike", max(ends[6, name] for name in runs) - min(ends[6, name] for name in runs) < 0.3
)

# %% [markdown]
# At 24 sub-layers post-norm without warm-up hardly learns. Warm-up helps it. Pre-norm needs none. At 6 sub-layers all
# three end alike. Pre-norm is what most deep models use (GPT-2 and most language models after it, the ESPnet toolkit
# for speech), because it trains without special care. (Liu et al. 2020 report that post-norm translators, where they
# converge, end a little better.)
#
# Otherwise the order of things inside a block is quite free. What matters: attention to mix the positions, a local
# network to work on each, a residual connection around both, and a norm over the features alone.
#
# ### Which pieces of a layer are linear?
#
# A linear piece $f$ has $f(x + y) = f(x) + f(y)$. The article quoted above counts only two that are not linear.
# Which of these are linear? Guess, then run the cell.

# %%
torch.manual_seed(0)
x, y = torch.randn(2, 5, 8, dtype=torch.float64)  # two inputs: 5 positions with 8 features
matrix, given = torch.randn(8, 8, dtype=torch.float64), torch.rand(5, 5, dtype=torch.float64)
pieces = {
    "projection": lambda x: x @ matrix,
    "scores": lambda x: x @ matrix @ x.T,
    "softmax": lambda x: x.softmax(dim=-1),
    "weighted sum with given weights": lambda x: given @ x,
    "residual sum with a projection": lambda x: x + x @ matrix,
    "norm": lambda x: F.layer_norm(x, (8,)),
    "ReLU": torch.relu,
}
is_linear = {name: torch.allclose(piece(x + y), piece(x) + piece(y)) for name, piece in pieces.items()}
print("linear:    ", ", ".join(name for name in pieces if is_linear[name]))
print("not linear:", ", ".join(name for name in pieces if not is_linear[name]))

# %% claims
not_linear = [name for name in pieces if not is_linear[name]]
claim("scores, softmax, norm and ReLU are not linear", not_linear == ["scores", "softmax", "norm", "ReLU"])

# %% [markdown]
# Four are not linear, not two: the scores and the norm as well as the softmax and the ReLU. And linear does not mean
# lossless, as the 24 Linears have shown: the residual path carries the gradient through a deep stack.

# %% [markdown]
# ## Dropout
#
# Dropout sets each number to zero with probability $p$ during training. The network cannot rely on any single one,
# which guards against overfitting. A second half of the story is often left out: what is kept is **divided by**
# $1 - p$, so that the mean stays what it was. In evaluation dropout does nothing at all.

# %%
torch.manual_seed(0)
dropout = nn.Dropout(0.1)
ones = torch.ones(1_000_000)
dropped = dropout(ones)
print("values that occur:", dropped.unique().tolist(), f"  1 / (1 - 0.1) = {1 / 0.9:.4f}")
print(f"share of zeros: {(dropped == 0).float().mean():.4f}   mean: {dropped.mean():.4f}")
dropout.eval()
print("in evaluation nothing changes:", torch.equal(dropout(ones), ones))

network, x = reference.FeedForward(8, 32, dropout=0.3), torch.randn(1, 8)
print("\ntraining:  ", [f"{network(x)[0, 0].item():.3f}" for _ in range(4)])
network.eval()
print("evaluation:", [f"{network(x)[0, 0].item():.3f}" for _ in range(4)])
print("F.dropout: ", F.dropout(torch.ones(8), 0.3))

# %% claims
claim(
    "a tenth is dropped and the mean stays",
    abs((dropped == 0).float().mean().item() - 0.1) < 0.005 and abs(dropped.mean().item() - 1) < 0.005,
)
claim("in evaluation it does nothing", torch.equal(dropout(ones), ones))
claim("F.dropout drops in any mode", not F.dropout(torch.ones(1000), 0.3).all())

# %% [markdown]
# A module knows its mode by `self.training`, which `.train()` and `.eval()` set. Forget `.eval()` before you translate,
# and the same sentence can get a different answer each time. The function `F.dropout(x, p)` knows no mode: it always
# drops, unless it is told `training=self.training`.
#
# **Where is it?** The paper applies dropout, with $p = 0.1$, in two kinds of places: to the sum of embedding and
# position, once, before the first layer; and to the output of each sub-layer, before it is added to $x$:
#
# $$\operatorname{norm}\bigl(x + \operatorname{dropout}(f(x))\bigr)$$
#
# Its authors' program, and most programs since, also drop attention weights and the hidden values of the feed-forward
# network, as yours do. Between layers it is the branch $f(x)$ that is dropped, not $x$: what is dropped from $x$ is
# missing in every layer above.

# %% [markdown]
# ## Your own experiment
#
# Now put a block together and find something out. The task: **reverse a sequence** of 4 to 8 symbols. The model reads
# the symbols and an EOS, and at position $i$ it should give the symbol that is $i$-th from the end. So it has to find
# out where the sequence ends, and look at the right place. Below is a small harness. `Block` has everything from this
# notebook and attention from the last one. (To keep it short there is no padding mask: padding shows where a sequence
# ends just as EOS does.)


# %%
class Block(nn.Module):
    """Attention and a feed-forward network, each in a pre-norm residual connection."""

    def __init__(self, feed_forward: nn.Module, d_model: int = 32, num_heads: int = 4, norm=reference.LayerNorm):
        super().__init__()
        self.attention, self.feed_forward = MultiHeadAttention(d_model, num_heads), feed_forward
        self.norm_1, self.norm_2 = norm(d_model), norm(d_model)

    def forward(self, x: Tensor) -> Tensor:
        x = reference.residual_pre_norm(x, lambda y: self.attention(y, y, y)[0], self.norm_1)
        return reference.residual_pre_norm(x, self.feed_forward, self.norm_2)


class Reverser(nn.Module):
    """Two blocks between an embedding and an output layer. make_block: a function that makes a new block."""

    def __init__(self, make_block: Callable[[], nn.Module], d_model: int = 32, vocab_size: int = 20):
        super().__init__()
        self.embedding = reference.TokenEmbedding(vocab_size, d_model)
        self.register_buffer("positions", sinusoidal_encoding(16, d_model))
        self.blocks = nn.Sequential(make_block(), make_block(), reference.LayerNorm(d_model))
        self.output = nn.Linear(d_model, vocab_size)

    def forward(self, ids: Tensor) -> Tensor:
        return self.output(self.blocks(self.embedding(ids) + self.positions[: ids.shape[1]]))


# %% [markdown]
# `train_reverser` trains such a model, `show_runs` draws the losses:


# %%
def train_reverser(make_block, name: str, steps: int = 300, seed: int = 0) -> tuple[int, Tensor]:
    """Returns: the number of parameters, and the loss after each step."""
    torch.manual_seed(seed)
    model = Reverser(make_block).to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    batches = copy_batches(32, steps, seed, reverse=True, longest=8)
    for source, target in bar(batches, f"{name}, seed {seed}", total=steps):
        source, target = source.to(device), target.to(device)
        real = target != 0  # padding does not count
        loss = F.cross_entropy(model(source)[real], target[real])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return sum(p.numel() for p in model.parameters()), torch.tensor(losses)


def show_runs(results: dict[str, list[tuple[int, Tensor]]]) -> None:
    """One curve for each run, one colour for each name."""
    figure, ax = plt.subplots(figsize=(8, 3.4))
    for (name, found), colour, style in zip(results.items(), COLOURS, ("-", "--", "-.", ":")):
        for i, (count, losses) in enumerate(found):
            smooth = losses.unfold(0, 20, 1).mean(dim=-1)
            label = f"{name}: {count:,} parameters" if i == 0 else None
            ax.plot(range(20, len(losses) + 1), smooth, style, color=colour, label=label)
    ax.set(xlabel="step", ylabel="loss, mean of 20 steps", ylim=(0, None))
    ax.locator_params(axis="x", integer=True)
    ax.legend(frameon=False, fontsize=8)
    plt.show()


# %% [markdown]
# As an example, the question from above: **does a wider feed-forward network help?** Two widths, two seeds.

# %% figure Does a wider feed-forward network help?
widths = {
    f"d_ff = {d_ff}": [
        train_reverser(lambda d_ff=d_ff: Block(reference.FeedForward(32, d_ff)), f"d_ff = {d_ff}", 250, seed)
        for seed in (0, 1)
    ]
    for d_ff in (32, 256)
}
show_runs(widths)

# %% claims
final = {name: [losses[-20:].mean().item() for _, losses in found] for name, found in widths.items()}
claim("both wide runs end below both narrow ones", max(final["d_ff = 256"]) < min(final["d_ff = 32"]))
narrow = final["d_ff = 32"]
claim("the two narrow runs are far apart", abs(narrow[0] - narrow[1]) > 0.1)
claim(
    "the wide model has three times the parameters", 2.5 < widths["d_ff = 256"][0][0] / widths["d_ff = 32"][0][0] < 3.5
)

# %% [markdown]
# Both wide runs end below both narrow ones. What may we conclude? That *this* wider model learns *this* task in fewer
# steps. Not that width is the reason: the wide model also has three times as many parameters, and perhaps any use of
# them would have helped. And look how far apart the two narrow runs are, which differ in nothing but the seed. With one
# seed each, we could not tell how much is chance.
#
# {{open_question change_one_thing}}
#
# **Change one thing in the block**, at (nearly) the same number of parameters and with the same number of steps, and
# find out whether it helps. Ideas: another activation (`GeluFeedForward(32, 128)`, `SwiGLU(32, 85)`),
# `reference.RMSNorm` for LayerNorm, post-norm for pre-norm, another number of heads, a narrower feed-forward network
# and something else made wider. Write down what you expect *before* you run it. A run of 300 steps takes a few seconds;
# allow half an hour for the whole. Nothing is checked automatically here. Your text, about 150 words, is marked by
# these criteria, one point each:
#
# 1. **Question and expectation**: what exactly is changed, and what did you expect, with a reason?
# 2. **A fair comparison**: one thing differs; parameters, steps and data are equal (give the numbers); at least two
#    seeds each.
# 3. **Result**: the curves are shown, and what they show is put into words and numbers, the spread between seeds
#    included.
# 4. **Conclusion**: what follows, and what does *not* follow (from this task, this size, this learning rate, these
#    seeds)?

# %%
STEPS = 40  # enough to see that it runs; take 300 for your experiment


def baseline():
    return Block(reference.FeedForward(32, 128))


def changed():  # change one thing here
    return Block(reference.FeedForward(32, 128))


makers = {"baseline": baseline, "changed": changed}
results = {name: [train_reverser(make, name, STEPS, seed) for seed in (0, 1)] for name, make in makers.items()}
show_runs(results)

# %% answer change_one_thing 4 [markdown]
# ### BEGIN SOLUTION
# An example; any fair experiment counts, also one without an effect. One point per criterion.
#
# (1) GELU instead of ReLU in both blocks, everything else as in the baseline. I expected little difference: the task
# is mostly about where to look, which attention does. (2) Both models have 26,772 parameters, since an activation has
# none; 300 steps, the same batches, seeds 0 and 1. (3) The mean loss of the last 20 steps was 0.06 and 0.34 with ReLU
# and 0.04 and 0.03 with GELU; both GELU runs fell below 0.5 somewhat earlier. The two ReLU runs differ from each
# other by more than the two kinds do. (4) GELU was not worse here, and perhaps a little better. With two seeds the
# difference can be chance: a single ReLU run had a late spike. It does not follow that GELU is better in general, nor
# on language, nor at another width, learning rate or length of training, nor that the curve near 0 is the reason.
# More seeds would be the next step.
#
# **Rubric**
#
# - 1 point: question and expectation: what exactly is changed, and what was expected, with a reason
# - 1 point: a fair comparison: one thing differs, the numbers are given, at least two seeds each
# - 1 point: result: in words and numbers, the spread between seeds included
# - 1 point: conclusion: what follows, and what does not
# ### END SOLUTION

# %% [markdown]
# ## What you can do now
#
# - turn tokens into vectors of the right size, with a padding row that is zero and stays zero
# - say what `padding_idx`, `from_pretrained` and $\sqrt{d_{\text{model}}}$ do, and what they do not do
# - write the feed-forward network, as Linears or as convolutions, say why it needs its ReLU, and what GELU and SwiGLU
#   change
# - write LayerNorm and RMSNorm, and find the two slips in the version that is copied most
# - explain why Transformers rarely use BatchNorm, and take statistics over a padded batch all the same
# - build post-norm and pre-norm, and say what each does to the gradient
# - say what dropout does in training, in evaluation, and where it belongs
# - compare two architectures fairly, and say what the comparison does not show
#
# The next notebook puts these pieces and attention together into encoder and decoder layers.
#
# To read on:
#
# - Vaswani et al. 2017, *Attention is all you need*: sections 3.3, 3.4 and 5.4; rows (C) of table 3 for $d_{\text{ff}}$
# - Hendrycks, Gimpel 2016, *Gaussian error linear units*; Shazeer 2020, *GLU variants improve Transformer*
# - Ba, Kiros, Hinton 2016, *Layer normalization*; Zhang, Sennrich 2019, *Root mean square layer normalization*
# - He et al. 2016, *Deep residual learning for image recognition*
# - Xiong et al. 2020, *On layer normalization in the Transformer architecture*; Liu et al. 2020, *Understanding the
#   difficulty of training Transformers*
# - Santurkar et al. 2018, *How does batch normalization help optimization?*
# - Srivastava et al. 2014, *Dropout: a simple way to prevent neural networks from overfitting*
