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
# Attention gets the fame. This notebook builds everything that stands between the attentions: the table that turns
# words into vectors, the small network that works on every position, the norms, the residual paths around each
# sub-layer, and dropout. Each is a few lines, and each has a way of being slightly wrong that runs without an error.
# It takes about 90 minutes.

# %% setup
import math
from collections.abc import Callable

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib import check, hint, solution
from course_lib import sublayers as reference
from course_lib.dot_product_attention import scaled_dot_product_attention
from course_lib.plotting import COLOURS, show_matrix, use_course_style
from course_lib.positions import sinusoidal_encoding

use_course_style()
torch.set_printoptions(precision=4, sci_mode=False)

# %% [markdown]
# ## Only attention moves anything
#
# One often reads that attention is the only operation in a Transformer. It is not. It is the only one that carries
# information **from one position to another**. All the rest looks at one position at a time. This can be measured:
# how does output $i$ change when input $j$ is nudged? The slopes of all pairs are the *Jacobian*.

# %%
torch.manual_seed(0)
x = torch.randn(5, 8)  # 5 positions, 8 features
feed_forward, norm = reference.FeedForward(8, 32), reference.LayerNorm(8)
pieces = {
    "self-attention": lambda x: scaled_dot_product_attention(x, x, x)[0],
    "feed-forward": feed_forward,
    "layer norm": norm,
}
figure, axes = plt.subplots(1, 3, figsize=(9, 3))
for (name, piece), ax in zip(pieces.items(), axes):
    jacobian = torch.autograd.functional.jacobian(piece, x)  # (out position, out feature, in position, in feature)
    influence = jacobian.abs().mean(dim=(1, 3))  # (out position, in position)
    show_matrix(influence, name, rows="output position", columns="input position", ax=ax)
figure.suptitle("Mean absolute slope of output i with respect to input j")
plt.show()

# %% [markdown]
# A plain 0 in these pictures is exactly zero; 0.00 is a small number, rounded. Attention has slopes everywhere. The
# other two have none off the diagonal. So for everything in this notebook one can think of a single position, a
# single vector of size `d_model`, and forget the others. That is also why these pieces run on all positions in
# parallel.

# %% [markdown]
# ## Words become vectors
#
# A network calculates with numbers, and words are not numbers. So each word of the vocabulary gets a number, its
# *id*, and the id is the row of a table. In that row stands a vector of size $d_{\text{model}}$, which is learned.
#
# $$e_{\text{word}} = W[\text{id of the word}] \qquad W \in \mathbb{R}^{\text{vocab size} \times d_{\text{model}}}$$

# %%
sentence = "the cat walks on the street".split()
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

# %% [markdown]
# Six words, five rows in the table, six vectors: a matrix of $6 \times d_{\text{model}}$, since "the" is looked up
# twice. How many vectors and how many rows does "The cat is on the mat." need? Guess before you run the cell.

# %%
for text in ("The cat is on the mat", "the cat is on the mat", "the cat is on the mat ."):
    tokens = text.split()
    print(f"{text:24} {len(tokens)} vectors from {len(set(tokens))} rows")

# %% [markdown]
# To a table "The" and "the" are two words, unless everything is written small first. And the full stop can be a
# token of its own: tokens are not always words.
#
# Attention then turns each $v_t$ into a $y_t$, and $y_{\text{cat}}$ is a weighted sum of all six $v_t$:

# %%
y, weights = scaled_dot_product_attention(v, v, v)
cat = sentence.index("cat")
print("y_cat =", " + ".join(f"{w:.2f} v_{word}" for w, word in zip(weights[cat], sentence)))
print("the two 'the' get the same y, too:", torch.allclose(y[0], y[4]), " (no positions have been added yet)")

# %% [markdown]
# **Spot the mistake.** "The embedding matrix has size sequence length × $d_{\text{model}}$, where sequence length is
# the size of the vocabulary." Which of the two is it? Try a table that has six rows because the sentence has six
# words:

# %%
try:
    nn.Embedding(6, 8)(torch.tensor([123]))
except IndexError as error:
    print("torch:     ", error)
try:
    reference.TokenEmbedding(6, 8)(torch.tensor([[123]]))
except IndexError as error:
    print("the course:", error)

# %% [markdown]
# The table belongs to the vocabulary and never knows how long a sentence is.
#
# **Special tokens.** Some rows stand for no word at all.
#
# | token | what for |
# |---|---|
# | PAD | fills short sentences up, so that a batch is a rectangle |
# | BOS (or SOS) | begins what the decoder reads: at first it has written nothing, and it has to read something |
# | EOS | ends what the decoder writes: without it nobody knows when to stop |
#
# For "i am a student" the decoder reads `BOS i am a student` and is to write `i am a student EOS`: the same words,
# moved by one place.
#
# **Where are the tables?** Only at the bottom. The first encoder layer gets embeddings, and every other layer gets
# the output of the layer below. A translator has a table for the words that go into the encoder, and one for the
# words that go into the decoder (they may be the same table). A speech recogniser needs one for its decoder alone:
# what goes into its encoder are vectors already.

# %% [markdown]
# ### What nn.Embedding does, and what it does not
#
# `nn.Embedding` is such a table with a lookup. Its `weight` is a parameter like any other. At the start it holds
# normally distributed numbers of variance 1.

# %%
torch.manual_seed(0)
table = nn.Embedding(100, 512)
print(type(table.weight).__name__, tuple(table.weight.shape), "trainable:", table.weight.requires_grad)
print("ids (32, 10) become", tuple(table(torch.randint(0, 100, (32, 10))).shape))

numbers = table.weight.detach().flatten()
grid = torch.linspace(-4, 4, 200)
figure, ax = plt.subplots(figsize=(6, 2.8))
ax.hist(numbers.numpy(), bins=80, density=True, color=COLOURS[4], label="the 51 200 numbers of the table")
ax.plot(grid, (-(grid**2) / 2).exp() / math.sqrt(2 * math.pi), color=COLOURS[1], label="normal, variance 1")
ax.set(title="nn.Embedding just built", xlabel="value", ylabel="density")
ax.legend(frameon=False, fontsize=8)
plt.show()

# %% [markdown]
# With `padding_idx` one row starts as zeros and gets no gradient. And a table that somebody else has trained
# (word2vec, GloVe) can be loaded with `from_pretrained`. Here that table is all ones. Guess before you run the cell:
# what stands in its padding row after loading? Can it be trained? Which rows get a gradient?

# %%
fresh = nn.Embedding(5, 3, padding_idx=0)
print("padding row of a fresh table:      ", fresh.weight[0].tolist())

pretrained = torch.ones(5, 3)
loaded = nn.Embedding.from_pretrained(pretrained, padding_idx=0)
print("padding row after from_pretrained: ", loaded.weight[0].tolist(), " <- it is left as it was")
print("trainable after from_pretrained:   ", loaded.weight.requires_grad, " <- unless you pass freeze=False")
try:
    nn.Embedding.from_pretrained(pretrained_embeddings=pretrained)
except TypeError:
    print("the argument is called `embeddings`, not `pretrained_embeddings`")

loaded = nn.Embedding.from_pretrained(pretrained, freeze=False, padding_idx=0)
loaded(torch.tensor([0, 1])).sum().backward()
print("gradient of rows 0 and 1:          ", loaded.weight.grad[:2].tolist())

# %% [markdown]
# So `padding_idx` promises two different things. *No gradient* holds always. *A row of zeros* holds only for a table
# that `nn.Embedding` has just made. Whoever fills the table afterwards, with trained vectors or with other random
# numbers, has to zero the row again.

# %% [markdown]
# ### How large should an embedding be?
#
# Two others have to get along with the table. The position vector, which is added to a row, has length
# $\sqrt{d_{\text{model}}/2}$ (notebook 03): 16 for $d_{\text{model}} = 512$. If a word is much shorter, it drowns; if
# it is much longer, its position does. And the output layer, which in the paper *is* this table, takes the dot product
# of each row with a normalised vector: the scores of the words, the *logits*, should come out at a size of about 1.
# So two things have to be chosen together: the variance of the numbers, and whether a looked-up row is multiplied by
# $\sqrt{d_{\text{model}}}$.

# %%
torch.manual_seed(0)
d_model = 512
print("length of a position vector:", sinusoidal_encoding(1, d_model).norm().item())
normalised = torch.randn(200, d_model)  # numbers of size 1, as a norm makes them
for name, std in (("1", 1.0), ("1/d", d_model**-0.5)):
    table = torch.randn(1000, d_model) * std
    length = table.norm(dim=-1).mean()
    logits = normalised @ table.T  # (200, 1000)
    print(
        f"variance {name:3}   length of a row {length:4.1f}, times √d {length * math.sqrt(d_model):5.1f}   "
        f"size of the logits {logits.std():4.1f}"
    )

# %% [markdown]
# With variance 1 a row fits the position as it is (22.6 and 16), but the logits are just as large, far too large to
# start with. With the factor on top a word has length 512, and its position is hardly noticed. With variance
# $1/d_{\text{model}}$ the logits are right, and it is the factor that makes a word fit its position. That is the
# paper's choice. (One could also give the positions a learned factor of their own and let training decide how much
# the order should count.)
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

# %% [markdown]
# Stuck? `hint("TokenEmbedding")` in a new cell gives the first hint.
#
# What the factor does, over many sizes of the model (drawn with the course's own version):

# %%
torch.manual_seed(0)
sizes = [8, 16, 32, 64, 128, 256, 512, 1024]
scaled, rows, positions = [], [], []
for d_model in sizes:
    embedding = reference.TokenEmbedding(200, d_model)
    vectors = embedding(torch.arange(1, 200)).detach()
    scaled.append(vectors.norm(dim=-1).mean())
    rows.append(embedding.table.weight[1:].detach().norm(dim=-1).mean())
    positions.append(sinusoidal_encoding(200, d_model).norm(dim=-1).mean())

figure, ax = plt.subplots(figsize=(6, 3.2))
ax.loglog(sizes, scaled, "o-", label="embedding: row times √d_model")
ax.loglog(sizes, positions, "s-", label="position vector: √(d_model / 2)")
ax.loglog(sizes, rows, "^-", label="row without the factor")
ax.set(title="Word and position stay of like size", xlabel="d_model", ylabel="mean length of a vector")
ax.legend(frameon=False, fontsize=8)
plt.show()

# %% [markdown]
# Word and position both grow with $\sqrt{d_{\text{model}}}$, so the factor fits every size of model. Without it, the
# wider the model, the more the position drowns the word. (Why the two are added at all, and not appended: notebook 03.)

# %% [markdown]
# ## The feed-forward network
#
# Attention averages. What it returns is a weighted sum of values, and a weighted sum cannot decide "if this and not
# that". This is what the second sub-layer is for: a small network with one hidden layer, applied to each position by
# itself, everywhere with the same weights. It makes the vector wider (in the paper 512 → 2048), sets what is negative
# to zero (*ReLU*), drops a few of these hidden values in training (*dropout*, the last section), and makes the vector
# narrow again.
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
print("numbers:", sum(p.numel() for m in (w_1, w_2) for p in m.parameters()), "do the work of", 8 * 8 + 8)

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
# What can it do, and how wide must it be? Here it learns the curve $\sin 3x$ from examples, with one number going in
# and one coming out. Each hidden value can put one bend into the line.


# %%
def fit(network, steps=400):
    """Train on sin 3x; returns the last mean squared error."""
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(steps):
        loss = (network(inputs) - torch.sin(3 * inputs)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


torch.manual_seed(0)
inputs = torch.linspace(-2, 2, 200)[:, None]
networks = {f"d_ff = {d_ff}": reference.FeedForward(1, d_ff) for d_ff in (4, 16, 64)}
networks = {"d_ff = 64, no ReLU": nn.Sequential(nn.Linear(1, 64), nn.Linear(64, 1)), **networks}
figure, ax = plt.subplots(figsize=(7.5, 3.2))
ax.plot(inputs, torch.sin(3 * inputs), color="0.75", linewidth=5, label="sin 3x")
for (name, network), colour in zip(networks.items(), COLOURS):
    error = fit(network)
    ax.plot(inputs, network(inputs).detach(), color=colour, label=f"{name}: error {error:.3f}")
ax.set(title="Feed-forward networks of several widths, 400 steps", xlabel="x", ylabel="output")
ax.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %% [markdown]
# Without the ReLU it is a straight line, however wide. With it, wider is better. (Why does $d_{\text{ff}} = 4$ bend
# only once? Training has moved the other three bends out of the picture. A wide network can afford such losses.) A
# network of this kind can approximate any continuous function if it is wide enough. That is a theorem; how wide, and
# whether training finds it, the theorem does not say.
#
# In the paper $d_{\text{ff}} = 4\, d_{\text{model}}$. The 4 is a choice. Vaswani et al. measured 1024, 2048 and 4096
# and found wider ones better, at a price: with the factor 4 the two matrices of the network hold
# $2 \cdot 4\, d^2 = 8 d^2$ numbers, twice as many as the $4d^2$ of the attention beside it. Sometimes one reads that
# the hidden layer must not be narrower than the input. That is advice, not a law:

# %%
for d_ff in (256, 512, 2048):
    network = reference.FeedForward(512, d_ff)
    count = sum(p.numel() for p in network.parameters())
    print(f"d_ff = {d_ff:4}: {count:9,} numbers, {tuple(network(torch.randn(2, 10, 512)).shape)}")

# %% [markdown]
# ### The same thing as two convolutions
#
# A convolution of **width 1** looks at one position and no neighbour: for each position it is a Linear. So the
# network is also two convolutions of width 1, and some programs write it this way. Only the axes stand in another
# order: `Conv1d` wants the features in the middle.
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

# %% [markdown]
# The second comment: after the last `transpose` it is (N, L, d_model), here (2, 5, 8).

# %% [markdown]
# ## Normalisation
#
# Why normalise at all? Take the simplest model there is, $\hat y = w_1 x_1 + w_2 x_2$, and let $x_2$ be five times as
# large as $x_1$. Then the error is a long valley over $(w_1, w_2)$. Gradient descent has one step size for both
# directions. The largest step that the steep direction bears is far too small for the flat one.

# %%
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
    distance = (path[-1] - target_weights).norm()
    ax.set(title=f"{name}\ndistance left: {distance:.3f}", xlabel="w₁", ylabel="w₂")
    ax.legend(fontsize=8, loc="upper right", framealpha=1)
plt.show()

# %% [markdown]
# Left the path swings across the valley and hardly moves along it. Right every step shrinks the whole distance by the
# same factor.
#
# So much for the inputs of one layer. In a deep network every layer's output is the next one's input, and the norms
# keep all of them in a steady range. The older explanation, that they cure an "internal covariate shift", is
# disputed: Santurkar et al. (2018) put such a shift back in behind a norm on purpose, and the norm helped all the
# same. What one can measure is the size of values and gradients in a deep network, with norms and without: below.
#
# (A word on words: this is *normalisation*. It is sometimes called regularisation, which means something else:
# measures against overfitting, such as dropout.)
#
# ### LayerNorm
#
# LayerNorm takes **one position** and looks at its $d$ features. It subtracts their mean and divides by their
# standard deviation. Then each feature gets a gain and a bias of its own, which are learned, so that the network can
# make a feature as large or as small as it needs it:
#
# $$\operatorname{LN}(x) = g \odot \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + b \qquad
# \mu = \frac1d \sum_i x_i \qquad \sigma^2 = \frac1d \sum_i (x_i - \mu)^2$$
#
# By hand: $x = (1, 2, 3, 6)$ has mean 3. The differences are $-2, -1, 0, 3$, their squares add up to 14, and the
# variance is $14 / 4 = 3.5$. Its root is 1.871. So the result is $(-1.069, -0.535, 0, 1.604)$.
#
# The small $\varepsilon$ keeps the root away from zero if all features are equal. It stands **under** the root.

# %%
x = torch.tensor([1.0, 2.0, 3.0, 6.0])
centred = x - x.mean()
variance = centred.pow(2).mean()
print("divided by the deviation:", centred / variance.sqrt())
print(
    "divided by the variance: ",
    centred / variance,
    " a mistake: its deviation is",
    f"{(centred / variance).std(correction=0):.4f}",
)

# %% [markdown]
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
# **Spot the mistake.** Many public programs have this norm. It trains, nobody notices. Where does it part from the
# formula?
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
# stands beside the root and not under it. The first makes every value smaller by the factor $\sqrt{(d-1)/d}$ (next
# cell). That is a lot for small $d$ and hardly anything for 512, which is why nobody notices. With $d = 1$ it is
# $0/0$.
#
# </details>


# %%
def public_norm(x, eps=1e-6):
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps)


torch.manual_seed(0)
for d in (3, 8, 512):
    x = torch.randn(100, d)
    right, theirs = F.layer_norm(x, (d,)), public_norm(x)
    ratio = (theirs * right).sum() / right.pow(2).sum()
    print(
        f"d = {d:3}: {ratio:.4f} times the right value, largest difference {(theirs - right).abs().max():.4f}, "
        f"variance of the result {theirs.var(-1, correction=0).mean():.3f}"
    )

# %% [markdown]
# **Per position, not per feature.** "LayerNorm gives each dimension mean zero and variance one" is a common slip. It
# gives each *position* mean zero and variance one, over its dimensions. A single dimension, looked at over many
# positions, may have any mean:

# %%
torch.manual_seed(0)
x = torch.randn(6, 8) + torch.linspace(-1, 1, 8)  # later features are larger
out = reference.LayerNorm(8)(x).detach()
figure, axes = plt.subplots(1, 2, figsize=(9, 3))
for ax, values, name in [(axes[0], x, "x"), (axes[1], out, "LayerNorm(x)")]:
    show_matrix(values, name, rows="position", columns="feature", diverging=True, limits=(-3, 3), ax=ax)
plt.show()
print("mean of each position:", [f"{abs(m):.0e}" for m in out.mean(dim=1).tolist()])
print("mean of each feature: ", [f"{m:.2f}" for m in out.mean(dim=0).tolist()])

# %% [markdown]
# ### RMSNorm
#
# Zhang and Sennrich (2019) left the mean alone and divided by the **root mean square** only. There is a gain and no
# bias. It needs fewer operations, in their experiments it trained as well, and many large language models use it.
#
# $$\operatorname{RMSNorm}(x) = g \odot \frac{x}{\sqrt{\frac1d \sum_i x_i^2 + \varepsilon}}$$
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
# What the two do to points with two features: LayerNorm first moves them onto a line (mean zero), so with two
# features only two points are left. RMSNorm moves them straight out to a circle and keeps their direction.

# %%
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
    ax.legend(frameon=False, fontsize=8, loc="lower right")
plt.show()

# %% [markdown]
# ### Why not BatchNorm?
#
# In image networks the usual norm is batch normalisation. It takes one *feature* and normalises it over all examples
# and all places. On `(batch, time, d_model)` that means: one mean and one variance for each feature, over batch and
# time. Now the sentences of a batch have different lengths, and the rest is padding.
#
# Take two sentences, one of length 1 and one of length 10. There are 20 vectors and only 11 of them are real. Suppose
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

# %% [markdown]
# It is off by the factor 11/20. So padding has to be left out, and wav2vec-U (Baevski et al. 2021) for one does so.
# How to do it is the exercise. With $n$ real positions in the whole batch, and sums over those alone:
#
# $$\mu_j = \frac1n \sum_{\text{real } (b,t)} x_{btj} \qquad\qquad
# \sigma_j^2 = \frac1n \sum_{\text{real } (b,t)} (x_{btj} - \mu_j)^2$$
#
# {{exercise masked_batch_statistics}}


# %% exercise masked_batch_statistics
def masked_batch_statistics(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of each feature over all real positions of the batch; every position has the same weight.

    x: (batch, time, d_model). mask: (batch, time), bool, True on real positions, at least one of them.
    Returns: (mean, variance), each (d_model,). The variance divides by the number of real positions.
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
# With this, padding no longer does harm. But something else is left, and no mask cures it: what a sentence becomes
# depends on the other sentences of its batch.

# %%
torch.manual_seed(0)
sentence = torch.randn(1, 4, 6)
everything = torch.ones(2, 4, dtype=torch.bool)
for neighbour in (torch.randn(1, 4, 6), torch.randn(1, 4, 6) + 2):
    batch = torch.cat([sentence, neighbour])
    mean, variance = reference.masked_batch_statistics(batch, everything)
    by_batch = (batch - mean) / torch.sqrt(variance + 1e-5)
    by_layer = reference.LayerNorm(6)(batch).detach()
    print(f"first number of the sentence: BatchNorm {by_batch[0, 0, 0]:6.3f}   LayerNorm {by_layer[0, 0, 0]:6.3f}")

# %% [markdown]
# LayerNorm does not look at the batch at all, so neither padding nor neighbours can touch it. There are more ways to
# choose what shares a mean. For the number marked ×, these are the numbers that its norm looks at:

# %%
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
figure.suptitle("Which numbers share a mean and a variance")
plt.show()

# %% [markdown]
# BatchNorm's column runs through the other sentence and through its padding. InstanceNorm and GroupNorm stay in the
# sentence, but mix its positions. Only LayerNorm (and RMSNorm) stays inside of one row.
#
# **A question for you.** A colleague replaces the LayerNorms of a translator by BatchNorm, with padding masked out as
# in your exercise. Training works. Then a user translates one sentence at a time and another user a hundred at once.
# In two or three sentences: what can go wrong that could not with LayerNorm, and why does the mask not help?

# %% answer why_not_batch_norm 2 [markdown]
# ### BEGIN SOLUTION
# Batch statistics make each sentence's result depend on the other sentences of its batch: the same sentence can be
# translated differently alone and among others (and with one single word, the variance over the batch is zero). If
# running averages are used instead, training and use differ. The mask only removes padding from the statistics; the
# neighbours' real words are still in them. LayerNorm takes its statistics from the position's own features, so batch
# size, neighbours and padding make no difference.
# ### END SOLUTION

# %% [markdown]
# ## Residual paths
#
# A deep network has a problem: the gradient on its way back is multiplied by one matrix for each layer. "Linear maps
# preserve the gradient perfectly", one reads. Let us see. 24 Linears of size 64, just built, nothing else: that is
# the line of circles. The other two are explained below the picture.


# %%
def gradient_by_depth(step, depth=24, d_model=64):
    """Length of the gradient with respect to what goes into each layer, for one position."""
    torch.manual_seed(0)
    layers = [nn.Linear(d_model, d_model) for _ in range(depth)]
    hidden = [torch.randn(1, d_model, requires_grad=True)]
    for layer in layers:
        hidden.append(step(layer, hidden[-1]))
    return [g.norm().item() for g in torch.autograd.grad(hidden[-1].sum(), hidden)]


plain = gradient_by_depth(lambda layer, x: layer(x))
residual = gradient_by_depth(lambda layer, x: x + layer(x))
normed = gradient_by_depth(lambda layer, x: x + layer(F.layer_norm(x, x.shape[-1:])))
figure, ax = plt.subplots(figsize=(7, 3.4))
ax.semilogy(plain, "o-", markersize=3, label="layer(x)")
ax.semilogy(residual, "s-", markersize=3, label="x + layer(x)")
ax.semilogy(normed, "^-", markersize=3, label="x + layer(norm(x))")
ax.set(title="24 Linears: the gradient on its way back to the input", xlabel="layer", ylabel="length of the gradient")
ax.legend(frameon=False, fontsize=8)
plt.show()
print(f"gradient at the input: plain {plain[0]:.1e}, residual {residual[0]:.0f}, residual with norm {normed[0]:.0f}")

# %% [markdown]
# Read it from right to left, as the gradient goes. It starts with length 8, and through plain Linears a millionth of
# that arrives. (A Linear starts with numbers so small that each layer shrinks what passes to about 0.6 of it: linear,
# but far from lossless.)
#
# The cure is to let each layer add to what is there, instead of replacing it:
#
# $$x \;\mapsto\; x + f(x)$$
#
# The layer then learns the *difference*, and if it has nothing to say it can say 0. On the way back the gradient has
# a path with nothing on it: the derivative of $x + f(x)$ is $1 + f'(x)$ (squares). The price is that the sums grow:
# here 204 arrives where 8 started. That is where the norm comes in (triangles: 19), and there are two places for it.
#
# ### Post-norm: as in the paper
#
# $$y = \operatorname{norm}(x + f(x))$$
#
# Here $f$ is any sub-layer, attention or feed-forward. Each sub-layer of the original Transformer is wrapped like
# this.
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
# ### Pre-norm: the path stays free
#
# In post-norm every path from the last layer to the first runs through every norm. If the norm is moved to the door
# of the sub-layer, the path around it is free:
#
# $$y = x + f(\operatorname{norm}(x))$$
#
# Since the sum itself is never normalised now, it grows from layer to layer. So a pre-norm model gets **one more norm
# after its last layer**. Forget that one and the output layer sees large numbers.
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
# Now measure both. A stack of feed-forward sub-layers, weights started by Xavier's rule (variance
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
        stack = Stack(path, depth)
        F.cross_entropy(stack(torch.randn(64, 32)), torch.randint(8, (64,))).backward()
        found.append(torch.stack([sublayer.w_2.weight.grad.norm() for sublayer in stack.sublayers]))
    return torch.stack(found).mean(dim=0)


paths = {"post-norm": reference.residual_post_norm, "pre-norm": reference.residual_pre_norm}
depths = [2, 4, 8, 16, 32]
figure, axes = plt.subplots(1, 2, figsize=(9, 3.3))
for (name, path), colour, marker in zip(paths.items(), COLOURS, "os"):
    axes[0].plot(range(24), gradients(path, 24), marker + "-", color=colour, markersize=4, label=name)
    last = [gradients(path, depth)[-1] for depth in depths]
    axes[1].semilogx(depths, last, marker + "-", color=colour, markersize=4, label=name)
axes[0].set(title="24 sub-layers", xlabel="sub-layer", ylabel="gradient of W₂")
axes[1].set(title="The last sub-layer alone", xlabel="number of sub-layers", ylabel="gradient of W₂")
axes[1].set_xticks(depths, depths)
axes[1].minorticks_off()
for ax in axes:
    ax.set_ylim(0, 0.65)
    ax.legend(frameon=False, fontsize=8)
plt.show()

# %% [markdown]
# In post-norm the gradient *rises* towards the output, and depth does not make the last layer's smaller. In pre-norm
# it *falls* towards the output, and the last layer's becomes smaller with depth. Xiong et al. (2020) found this and
# drew the conclusion: with post-norm the first steps of training are too large for the last layers, unless the
# learning rate starts small and is *warmed up*. Does it matter? Train stacks of 24 and of 6 sub-layers:


# %%
def train(path, warmup, depth, steps=200, rate=3e-3):
    """The losses of a stack that learns to imitate a small fixed network."""
    torch.manual_seed(0)
    teacher = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 8))
    for parameter in teacher.parameters():
        parameter.data.mul_(3)
    stack = Stack(path, depth)
    optimizer = torch.optim.Adam(stack.parameters(), lr=rate)
    losses = []
    for step in range(1, steps + 1):
        optimizer.param_groups[0]["lr"] = rate * min(1.0, step / warmup)
        x = torch.randn(64, 32)
        loss = F.cross_entropy(stack(x), teacher(x).argmax(dim=-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


runs = [
    ("post-norm, no warm-up", "post-norm", 1),
    ("post-norm, 100 steps of warm-up", "post-norm", 100),
    ("pre-norm, no warm-up", "pre-norm", 1),
]
figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), sharey=True)
for ax, depth in zip(axes, (24, 6)):
    for (name, kind, warmup), style in zip(runs, ("-", "--", "-.")):
        losses = torch.tensor(train(paths[kind], warmup, depth))
        smooth = losses.unfold(0, 15, 1).mean(dim=-1)
        ax.plot(range(15, len(losses) + 1), smooth, style, label=f"{name}: {smooth[-1]:.2f}")
    ax.axhline(math.log(8), color="0.6", linewidth=1, label=f"guessing: ln 8 = {math.log(8):.2f}")
    ax.set(title=f"{depth} sub-layers, learning rate 0.003", xlabel="step", ylim=(0.8, 2.8))
    ax.legend(frameon=False, fontsize=8)
axes[0].set_ylabel("loss, mean of 15 steps")
plt.show()

# %% [markdown]
# At 24 sub-layers post-norm without warm-up barely gets off the ground. Warm-up helps it. Pre-norm needs none. At 6
# sub-layers all three end alike. (In longer trainings that both survive, post-norm is often found to end slightly
# better.) Pre-norm is what most deep models use (GPT-2 and nearly all language models after it, the ESPnet toolkit
# for speech), because it converges without care.
#
# The order of things inside a block is otherwise quite free. What matters: attention to mix the positions, a local
# network to work on each, a residual path around both, and a norm over the features alone.

# %% [markdown]
# ## Dropout
#
# Dropout sets each number to zero with probability $p$, during training. The network cannot rely on any single one,
# and that is a guard against overfitting. There is a second half of the story which is often left out: what is kept
# is **divided by** $1 - p$, so that the mean stays what it was. In evaluation dropout does nothing at all.

# %%
torch.manual_seed(0)
dropout = nn.Dropout(0.1)
ones = torch.ones(1_000_000)
dropped = dropout(ones)
print("values that occur:", dropped.unique().tolist(), f"  1 / (1 - 0.1) = {1 / 0.9:.4f}")
print(f"share of zeros: {(dropped == 0).float().mean():.4f}   mean: {dropped.mean():.4f}")
dropout.eval()
print("in evaluation nothing changes:", torch.equal(dropout(ones), ones))

# %% [markdown]
# A module knows its mode by `self.training`, which `.train()` and `.eval()` set. Forget `.eval()` before you
# translate, and the same sentence gets a different answer each time. The function `F.dropout(x, p)` knows no mode: it
# drops, always, unless it is told `training=self.training`.

# %%
torch.manual_seed(0)
network, x = reference.FeedForward(8, 32, dropout=0.3), torch.randn(1, 8)
print("training:  ", [f"{network(x)[0, 0].item():.3f}" for _ in range(4)])
network.eval()
print("evaluation:", [f"{network(x)[0, 0].item():.3f}" for _ in range(4)])
print("F.dropout: ", F.dropout(torch.ones(8), 0.3))

# %% [markdown]
# **Where is it?** The paper has dropout, with $p = 0.1$, in two kinds of places: on the output of each sub-layer,
# before it is added to $x$, and on the sum of embedding and position. Its authors' program, and most programs since,
# also drop attention weights and the hidden values of the feed-forward network, as yours does. A sub-layer with all
# of it is
#
# $$\operatorname{norm}\bigl(x + \operatorname{dropout}(f(x))\bigr)$$
#
# Never on the residual path itself: what is dropped there is lost for all layers above.

# %% [markdown]
# ## What you can do now
#
# - turn tokens into vectors of the right size, with a padding row that is zero and stays zero
# - say what `padding_idx`, `from_pretrained` and $\sqrt{d_{\text{model}}}$ do, and what they do not do
# - write the feed-forward network, as Linears or as convolutions, and say why it needs its ReLU
# - write LayerNorm and RMSNorm, and find the two slips in the version that is copied most
# - explain why sequence models do not use BatchNorm, and take statistics over a padded batch all the same
# - build post-norm and pre-norm, and say what each does to the gradient
# - say what dropout does in training, in evaluation, and where it belongs
#
# The next notebook puts these pieces and attention together to encoder and decoder layers.
#
# To read on:
#
# - Vaswani et al. 2017, *Attention is all you need*: sections 3.3, 3.4 and 5.4; rows (C) of table 3 for $d_{\text{ff}}$
# - Ba, Kiros, Hinton 2016, *Layer normalization*; Zhang, Sennrich 2019, *Root mean square layer normalization*
# - He et al. 2016, *Deep residual learning for image recognition*
# - Xiong et al. 2020, *On layer normalization in the Transformer architecture*: pre-norm, post-norm and warm-up
# - Santurkar et al. 2018, *How does batch normalization help optimization?*
# - Srivastava et al. 2014, *Dropout: a simple way to prevent neural networks from overfitting*
