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
# # 1 · Dot-product attention
#
# You will build the operation that gave the Transformer its name: a look-up in which every entry answers, each as
# much as it fits the question. It starts with two vectors and ends with
# $\text{softmax}(QK^\top/\sqrt{d_k})\,V$, written by you, understood factor by factor, and priced.
# Seven exercises, about 85 minutes.

# %% setup
import math
import time

import matplotlib.pyplot as plt
import torch
from torch import nn

from course_lib import check, hint, solution
from course_lib import dot_product_attention as reference
from course_lib.plotting import COLOURS, show_matrix, use_course_style

torch.manual_seed(0)
use_course_style()

# %% [markdown]
# The demonstrations below use `reference`, the course's own version of what you are going to write. They run whether
# or not you have done the exercises.
#
# ## 1 · Relevance is a dot product
#
# Read the word *eat*. You look for two things at once: *who* eats and *what* is eaten. If the sentence offers a person
# and an apple, these two words matter to you, and the other words hardly do. A network that reads needs the same
# thing: a number that says how much one item matters to another.
#
# Film recommendation needs that number too, and it is easier to see there. Describe each film by three features and
# each viewer by the same three: how romantic is the film, and how much does the viewer like romance? The **dot
# product** multiplies feature by feature and adds up.

# %%
features = ["romance", "action", "comedy"]
films = {"Harbour Lights": [0.9, -0.6, 0.1], "Night Convoy": [-0.4, 1.0, -0.5], "Hearts on Fire": [0.9, 0.9, -0.2]}
viewers = {"Ada": [1.0, -0.8, 0.3], "Ben": [0.8, -0.5, 0.1], "Cem": [-0.3, 0.9, -0.7]}

film_matrix = torch.tensor(list(films.values()))  # (film, feature)
viewer_matrix = torch.tensor(list(viewers.values()))  # (viewer, feature)
scores = viewer_matrix @ film_matrix.T  # (viewer, film)

show_matrix(
    scores,
    "score = features of the viewer · features of the film",
    rows="viewer",
    columns="film",
    row_names=list(viewers),
    column_names=list(films),
    diverging=True,
)
plt.show()

# %% [markdown]
# **Sign and size.** A term is positive if both signs agree: a romantic film and a viewer who likes romance, or an
# unromantic film and a viewer who dislikes it. A large feature counts for more than a small one: "a little romantic"
# moves the score a little.
#
# **Spot the mistake.** "The two like the same thing, the signs agree, so the dot product is positive." That is true
# of *one term*. The score is the sum of all terms, and they may pull in different directions:

# %%
ben, film = torch.tensor(viewers["Ben"]), torch.tensor(films["Hearts on Fire"])
for name, a, b in zip(features, ben, film):
    print(f"{name:8} {a:5.1f} × {b:5.1f} = {a * b:6.2f}")
print(f"total {(ben @ film).item():23.2f}")

# %% [markdown]
# ## 2 · Nobody has to write the features down
#
# Millions of films cannot be described by hand, and nobody can fill in their own row honestly. But people do leave
# ratings. So we turn the problem around: the features become **parameters**, and we adjust them until their dot
# products agree with the ratings that we know. This is *matrix factorisation*. Note what stays the same: the score is
# still a dot product. Only the origin of the vectors changes.
#
# Here are 12 invented films and 60 invented viewers with tastes of their own, of which the model is told nothing. It
# sees half of the ratings. We watch the half that it does not see.

# %%
torch.manual_seed(0)
titles = {
    "Harbour Lights": (-1.8, 0.5), "Paris, Again": (-1.5, -0.1), "Letters Home": (-1.2, 0.9),
    "The Wrong Bride": (-1.2, -0.9), "Aunt Olga": (-0.4, -1.1), "Two Left Feet": (0.3, -1.0),
    "The Witness": (-0.4, 1.0), "Winter Trial": (0.3, 0.8), "Cops and Cakes": (1.1, -0.8),
    "Night Convoy": (1.7, 0.8), "Last Bridge": (1.4, 0.3), "Full Throttle": (1.9, -0.3),
}  # fmt: skip
hidden_films = torch.tensor(list(titles.values()))  # (film, 2): used to make the ratings, then never again
hidden_viewers = torch.randn(60, 2)
ratings = hidden_viewers @ hidden_films.T + 0.2 * torch.randn(60, 12)  # (viewer, film)
seen = torch.rand(60, 12) < 0.5

viewer_features = nn.Parameter(0.1 * torch.randn(60, 2))
film_features = nn.Parameter(0.1 * torch.randn(12, 2))
optimiser = torch.optim.Adam([viewer_features, film_features], lr=0.05, weight_decay=1e-3)
for step in range(301):
    error = viewer_features @ film_features.T - ratings
    loss = (error[seen] ** 2).mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    if step % 100 == 0:
        unseen = (error[~seen] ** 2).mean().sqrt().item()
        print(f"step {step:3}   error on known ratings {loss.sqrt().item():.2f}   on unknown ratings {unseen:.2f}")

# %% [markdown]
# The error on ratings it has never seen falls nearly as far as the error on the known ones: the vectors have learned
# something about the films. What? Draw them.

# %%
with torch.no_grad():
    # Turning both sets of vectors together changes no dot product, so the axes are free.
    # We choose: the first axis along which the films differ most.
    _, _, turn = torch.linalg.svd(film_features - film_features.mean(dim=0))
    learned = film_features @ turn.T
    place = {title: number for number, title in enumerate(titles)}
    learned[:, 0] *= torch.sign(learned[place["Night Convoy"], 0])  # which side is right is our choice too,
    learned[:, 1] *= torch.sign(learned[place["The Witness"], 1])  # and which is up

fig, ax = plt.subplots(figsize=(8, 4.6))
ax.scatter(*learned.T, color=COLOURS[0])
for title, (x, y) in zip(titles, learned.tolist()):
    ax.annotate(title, (x, y), xytext=(5, 5), textcoords="offset points", fontsize=9)
ax.axhline(0, color="0.8", zorder=0)
ax.axvline(0, color="0.8", zorder=0)
ax.margins(x=0.18, y=0.12)
ax.set(title="Learned from ratings alone", xlabel="learned feature 1", ylabel="learned feature 2")
plt.show()

# %% [markdown]
# Read the map. From left to right it goes from love stories to action, from bottom to top from comic to serious.
# Nobody mentioned romance or comedy: whoever likes *Paris, Again* likes *Harbour Lights*, and two numbers a film have
# to account for that.
#
# One honest remark: the *directions* are learned, the *axes* are our choice. Turn all films and all viewers by the
# same angle and every dot product stays as it was. Koren, Bell and Volinsky (2009) drew such a map for real films.
#
# Attention works like this: dot products between learned vectors decide what is relevant to what, and training finds
# the vectors.
#
# ## 3 · A dictionary that always answers
#
# A Python dictionary compares your query with its keys and returns the value of the one key that is *equal*. No equal
# key, no answer.

# %%
sounds = {"cat": "meow", "dog": "woof"}
print(sounds.get("cat"), sounds.get("kitten"))

# %% [markdown]
# A *soft* dictionary lets every key match a little. It has the same three parts, and they keep their names for the
# rest of the course:
#
# | part | its question | in a library |
# |---|---|---|
# | **query** $q$ | what am I looking for? | the slip you hand in |
# | **key** $k_j$ | what is this entry about? | the label on a spine |
# | **value** $v_j$ | what is in it? | the text of the book |
#
# The look-up has two steps. *Compare* the query with every key: $s_j = q \cdot k_j$. *Collect* all values, each in
# proportion to its match. The softmax turns scores into proportions: all positive, with the sum 1.
#
# $$\text{lookup}(q) = \sum_j w_j\, v_j \qquad w_j = \frac{e^{q\cdot k_j}}{\sum_l e^{q\cdot k_l}}$$
#
# {{exercise soft_lookup}}


# %% exercise soft_lookup
def soft_lookup(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """The average of all values, each weighted by how well its key fits the query. No scale.

    query: (d,); keys: (n, d); values: (n, d_v), row j belongs to key j.
    Returns: (d_v,), the sum of w_j v_j with w = softmax of the dot products of the query with the keys. A dot product
    may be 1000 or -1000: nothing overflows.
    """
    ### BEGIN SOLUTION
    scores = keys @ query  # (n,)
    weights = scores.softmax(dim=0)  # (n,)
    return weights @ values  # (d_v,)
    ### END SOLUTION


# %% check soft_lookup
check(soft_lookup)

# %% [markdown]
# If you are stuck, run `hint("soft_lookup")`. Each call tells a little more.
#
# **An animal that is like four others.** Père David's deer is called *the four unlikes* in Chinese: it has the
# antlers of a deer, the hooves of an ox, the tail of a donkey and the face of a horse, and is none of them. Suppose
# you have never seen one and are told its features. Who are its relatives, and how tall might it be? Query: the
# unknown animal. Keys: the features of five known ones. Values: what we know about them.

# %%
# five features: antlers, cloven hooves, a long face, a tuft on the tail, life in water
query = torch.tensor([1.5, 1.0, 0.5, 0.5, -2.0])
keys = torch.tensor(
    [
        [1.0, 1.0, 0.0, 0.0, -0.5],  # deer
        [0.0, 1.0, 0.5, 1.0, -0.5],  # ox
        [0.0, 1.0, 0.0, 0.0, -0.5],  # sheep
        [0.0, 0.0, 1.0, 1.0, -0.5],  # donkey
        [0.0, 0.0, 0.0, 0.0, 2.0],  # frog
    ]
)
animals = ["deer", "ox", "sheep", "donkey", "frog"]
heights = torch.tensor([[1.20], [1.40], [0.70], [1.10], [0.05]])  # metres: one value for each key

scores = keys @ query
weights = scores.softmax(dim=0)
for name, score, weight in zip(animals, scores, weights):
    print(f"{name:7} score {score:5.2f}   weight {weight:.4f}")
print(f"guess: {reference.soft_lookup(query, keys, heights).item():.2f} m")

# %% [markdown]
# Check one by hand: the score of the deer is $1.5 + 1 + 0 + 0 + 1 = 3.5$. The guess of about 1.2 m is right.
#
# Look at the frog. It disagrees on the one feature that it has, so its score is $-4$ and its weight 0.0003: it is as
# good as ignored. That is how attention silences what is irrelevant. It is not *exactly* 0: $e^s$ never is.
#
# **The same thing, as an expectation.** Weights that are positive and sum to 1 are probabilities. So $\sum_j w_j v_j$
# is the *expected value* of a random draw: take value $v_j$ with probability $w_j$. We can check that by really
# drawing.

# %%
torch.manual_seed(1)
draws = heights[torch.multinomial(weights, 20_000, replacement=True), 0]  # (20000,)
running_mean = draws.cumsum(0) / torch.arange(1, 20_001)
exact = (weights @ heights).item()
print(f"mean of 20 000 draws {running_mean[-1].item():.4f}, one matrix product {exact:.4f}")

fig, ax = plt.subplots(figsize=(7, 2.8))
ax.semilogx(torch.arange(1, 20_001), running_mean, label="mean of the first n draws")
ax.axhline(exact, color=COLOURS[1], linestyle="--", label="weights @ values")
ax.set(title="Attention is the mean of a random look-up", xlabel="number of draws n", ylabel="height in metres")
ax.legend()
plt.show()

# %% [markdown]
# The matrix product gives in one step what drawing approaches slowly. And unlike a draw it has a gradient.
#
# ## 4 · Why it is called attention
#
# A weighted sum can leave things out. Take the input $[1,2,3,4,5]$ and the weights $[0,0,0,\tfrac12,\tfrac12]$:

# %%
x = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
w = torch.tensor([0.0, 0.0, 0.0, 0.5, 0.5])
print("weighted sum:", (w @ x).item())
print("first three inputs replaced:", (w @ torch.tensor([100.0, -7.0, 0.0, 4.0, 5.0])).item())

# %% [markdown]
# The result pays attention to the last two numbers; what the others are makes no difference. (It saves no work
# though: all five products are computed, two of them with 0.5 and three with 0. Attention is dense, and at the end of
# this notebook you will count what that costs.)
#
# **Attention that is built in, and attention that is read off.** To tell which sport a photo shows, you look at hands
# and feet; to guess somebody's age, at the face. Networks are no people, but of them, too, one can ask *where did you
# look?* One answer is a gradient: how much would the output change if this input changed? Such a *saliency map*
# is computed afterwards, by somebody else, for a network in which nothing is called attention. In an attention model
# the weights are part of the computation itself.
#
# A small test. Eight tokens, each with a marker, a number, and noise. One token has its marker set, and the answer is
# that token's number. We train a plain network and one that attends.

# %%
torch.manual_seed(0)


def make_batch(size):
    x = torch.randn(size, 8, 3)  # (batch, token, feature): marker, number, noise
    place = torch.randint(8, (size,))
    x[:, :, 0] = nn.functional.one_hot(place, 8)
    return x, x[torch.arange(size), place, 1]


class Plain(nn.Module):
    """Two layers that see all 24 numbers at once."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(24, 96), nn.ReLU(), nn.Linear(96, 1))

    def forward(self, x):
        return self.layers(x)[:, 0]


class Attending(nn.Module):
    """A learned query looks for the token that matters."""

    def __init__(self):
        super().__init__()
        self.query = nn.Parameter(0.1 * torch.randn(3))
        self.value = nn.Linear(3, 1)

    def weights(self, x):
        return (x @ self.query).softmax(dim=1)  # (batch, token)

    def forward(self, x):
        return (self.weights(x) * self.value(x)[:, :, 0]).sum(dim=1)


models = {"plain": Plain(), "attending": Attending()}
for name, model in models.items():
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(800):
        inputs, targets = make_batch(128)
        loss = ((model(inputs) - targets) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{name:9} {parameters:4} parameters, mean squared error {loss.item():.3f}")

# %%
torch.manual_seed(6)
inputs, _ = make_batch(1)
inputs.requires_grad_()
(slope,) = torch.autograd.grad(models["plain"](inputs).sum(), inputs)
saliency = slope[0, :, 1].abs()  # how strongly does the output react to the number of this token?
built_in = models["attending"].weights(inputs)[0].detach()

fig, axes = plt.subplots(1, 3, figsize=(9, 2.6), sharex=True)
panels = [
    (inputs[0, :, 0].detach(), "truth: the marked token", "marker"),
    (saliency / saliency.sum(), "read off: gradient of the plain net", "share"),
    (built_in, "built in: weights of the attending net", "weight"),
]
for ax, (bars, title, label), colour in zip(axes, panels, COLOURS):
    ax.bar(range(8), bars, color=colour)
    ax.set(title=title, xlabel="token", ylabel=label, ylim=(0, 1.05))
    ax.title.set_fontsize(9)
plt.show()

# %% [markdown]
# Both point at the right token. The gradient had to be asked for after training, of a network that never computed
# such a thing. The weights on the right are the very numbers with which the output was made. (Are they an
# *explanation*? Section 11 comes back to that.)
#
# ## 5 · Self-attention, in its simplest form
#
# Now let a sequence look itself up. There is a vector for each word, $x_1, \dots, x_t$. Each word in turn plays the
# query, and all words, itself included, are keys and values:
#
# $$y_i = \sum_j w_{ij}\, x_j \qquad w_{ij} = \operatorname{softmax}_j (x_i \cdot x_j)$$
#
# A sequence goes in, a sequence of the same length comes out. Two things are worth saying twice.
#
# - $w_{ij}$ is **not a parameter**. In an ordinary layer the weights are learned and fixed; here they are computed
#   afresh from the content. There is not one parameter in the formula: what it does is decided by whoever makes the
#   vectors.
# - $w_{ij}$ depends on *what* stands at $i$ and $j$, not on *where* they are.
#
# Write it with loops first, the way the formula reads: for every $i$, score every $j$, softmax, add up. No scale here.
#
# {{exercise self_attention}}


# %% exercise self_attention
def self_attention(x: torch.Tensor) -> torch.Tensor:
    """Every vector of a sequence looks all vectors of that sequence up, itself included. No parameters, no scale.

    x: (time, d).
    Returns: (time, d), row i is the sum over j of w_ij x_j, where w_i = softmax over j of x_i · x_j. A dot product may
    be 1000 or more: nothing overflows.
    """
    ### BEGIN SOLUTION
    outputs = []
    for x_i in x:
        scores = torch.stack([x_i @ x_j for x_j in x])  # (time,)
        weights = scores.softmax(dim=0)  # (time,)
        outputs.append(sum(w * x_j for w, x_j in zip(weights, x)))  # (d,)
    return torch.stack(outputs)  # (time, d)
    ### END SOLUTION


# %% check self_attention
check(self_attention)

# %% [markdown]
# **The cat walks on the street.** To understand *walks* one has to know who walks; the word *the* tells nearly
# nothing. If the vectors are learned, training will make $x_\text{cat}\cdot x_\text{walks}$ large and the products
# with *the* small or negative. We set such vectors by hand and look at the weights.

# %%
vectors = {"the": [-0.3, -0.3, -0.4], "cat": [1.2, 1.0, 0.1], "walks": [1.3, 0.2, 1.0],
           "on": [-0.2, 0.3, 0.5], "street": [0.1, 0.9, 1.3]}  # fmt: skip
words = "the cat walks on the street".split()
x = torch.tensor([vectors[word] for word in words])  # (6, 3)
dot_products = x @ x.T
weights = dot_products.softmax(dim=1)

fig, axes = plt.subplots(1, 2, figsize=(9, 3.9))
show_matrix(dot_products, "dot products", row_names=words, column_names=words, diverging=True, ax=axes[0])
show_matrix(weights, "weights: softmax of each row", row_names=words, column_names=words, limits=(0, 1), ax=axes[1])
plt.show()

# %% [markdown]
# What to notice:
#
# - *cat* and *walks* see each other; from the words with a content, *the* gets next to nothing.
# - The dot products are symmetric, the weights are not: each **row** is normalised by itself and sums to 1.
# - The two rows of *the* are equal to the last digit. Same word, same vector, same result, wherever it stands.
#
# ## 6 · All words at once
#
# The loop handles one word after the other, and it is easy to believe that this is how it has to be. But $y_3$ does
# not need $y_2$: all positions can be computed at the same time. Put the vectors into the rows of a matrix $X$. Then
# all dot products are one matrix product, and so are all sums:
#
# $$Y = \operatorname{softmax}(X X^\top)\, X$$
#
# with the softmax along each row. With a batch of sentences, $X$ is `(batch, time, d)`, and the sentences must not see
# each other. `A @ B` multiplies the last two axes and leaves the batch axis alone. The wrong way first: on a tensor
# with three axes, `.T` turns all of them around.

# %%
x = torch.zeros(2, 5, 3)  # batch of 2, 5 words, 3 features
print("all axes turned (x.T)", tuple(x.permute(2, 1, 0).shape), "words, features and sentences are mixed up")
print("x.transpose(1, 2)    ", tuple(x.transpose(1, 2).shape), "each sentence turned by itself")
print(
    "x @ x.transpose(1, 2)",
    tuple((x @ x.transpose(1, 2)).shape),
    "a score for each pair of words, sentence by sentence",
)

# %% [markdown]
# {{exercise batched_self_attention}}


# %% exercise batched_self_attention
def batched_self_attention(x: torch.Tensor) -> torch.Tensor:
    """self_attention of every sequence in a batch, without a loop: two matrix products and a softmax. No scale.

    x: (batch, time, d).
    Returns: (batch, time, d). A dot product may be 1000 or more: nothing overflows.
    """
    ### BEGIN SOLUTION
    scores = x @ x.transpose(1, 2)  # (batch, time, time)
    weights = scores.softmax(dim=2)  # (batch, time, time)
    return weights @ x  # (batch, time, d)
    ### END SOLUTION


# %% check batched_self_attention
check(batched_self_attention)

# %% [markdown]
# Same numbers, another speed. The loop asks Python for $2t^2$ small steps; the matrix form asks for three large ones.


# %%
def seconds(function, argument, repeats):
    start = time.perf_counter()
    for _ in range(repeats):
        function(argument)
    return (time.perf_counter() - start) / repeats


lengths = [4, 8, 16, 32, 64, 128]
sequences = [torch.randn(n, 16) for n in lengths]
loop = [seconds(reference.self_attention, x, 1) for x in sequences]
matrix = [seconds(reference.batched_self_attention, x[None], 20) for x in sequences]
difference = (
    (reference.self_attention(sequences[3]) - reference.batched_self_attention(sequences[3][None])[0]).abs().max()
)
print(f"largest difference at length 32: {difference.item():.0e}")
print(f"at length 128: {2 * 128**2} small steps in the loop, 3 large ones in the matrix form")

fig, ax = plt.subplots(figsize=(6, 3))
ax.loglog(lengths, loop, "o-", label="loop over i and j")
ax.loglog(lengths, matrix, "s-", label="two matrix products")
ax.set(title="The same numbers, in different time", xlabel="sequence length t", ylabel="seconds")
ax.legend()
plt.show()

# %% [markdown]
# ## 7 · Two properties to remember
#
# **Order means nothing.** Shuffle the tokens and the outputs are shuffled in the same way, and otherwise unchanged.
# This is called *permutation equivariance*: self-attention treats its input as a set, not as a sequence. The order of
# words will have to be put in by other means.

# %%
x = torch.randn(1, 6, 4)
order = torch.randperm(6)
shuffled_first = reference.batched_self_attention(x[:, order])
shuffled_last = reference.batched_self_attention(x)[:, order]
print("order", order.tolist(), " largest difference", f"{(shuffled_first - shuffled_last).abs().max().item():.0e}")

# %% [markdown]
# **It is the only place where tokens meet.** A Transformer has other layers: linear maps, activations, normalisation.
# All of them treat each token alone. Ask with derivatives: does output $i$ react to input $j$?


# %%
def reaction(layer, x):
    """How strongly output i depends on input j: the size of that block of the Jacobian. (time, time)"""
    jacobian = torch.autograd.functional.jacobian(layer, x)  # (time, d, time, d)
    return jacobian.pow(2).sum(dim=(1, 3)).sqrt()


torch.manual_seed(2)
x = 0.7 * torch.randn(5, 4)
layers = {
    "linear, ReLU, linear": nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 4)),
    "LayerNorm": nn.LayerNorm(4),
    "self-attention": lambda x: reference.batched_self_attention(x[None])[0],
}
fig, axes = plt.subplots(1, 3, figsize=(9, 3))
for ax, (name, layer) in zip(axes, layers.items()):
    show_matrix(reaction(layer, x), name, rows="output i", columns="input j", ax=ax)
plt.show()

# %% [markdown]
# Off the diagonal there are exact zeros in the first two, and none in the third. Attention is not the only operation
# between input and output, but it is the only one that carries information *from one token to another*.
#
# ## 8 · Dot product or cosine?
#
# The dot product is not the only way to compare. The **cosine** divides by both lengths and keeps the angle alone:
# $\cos(a,b) = a\cdot b / (\lVert a\rVert \lVert b\rVert)$. What does that change?

# %%
query = torch.tensor([2.0, 1.0])
keys = torch.tensor([[2.0, 1.0], [6.0, 0.0], [-1.0, 2.0], [0.2, 0.1]])
names = ["same vector", "long, other angle", "at a right angle", "same angle, short"]
dot = keys @ query
cosine = nn.functional.cosine_similarity(keys, query[None], dim=1)
print(f"{'key':18} {'dot':>6} {'weight':>7} {'cosine':>8} {'weight':>7}")
for name, a, b, c, d in zip(names, dot, dot.softmax(0), cosine, cosine.softmax(0)):
    print(f"{name:18} {a:6.2f} {b:7.3f} {c:8.2f} {d:7.3f}")

# %% [markdown]
# - With the dot product a long key is a loud one: it can win although its angle is worse. A model may use that, for
#   "this word is important to everybody".
# - The cosine stays between −1 and 1, so the softmax cannot become decided. Among 10 keys the best possible weight is
#   $e/(e+9e^{-1}) = 0.45$. Models that use the cosine multiply it by a learned factor for this reason.
#
# Transformers use the dot product: it is one matrix product, and the lengths carry information. But its size needs
# care, and that is the next section.
#
# ## 9 · Three roles, and a scale
#
# In $y_i = \sum_j w_{ij} x_j$ each vector is used in three ways. Take $x_2$ among four words. Before you read on: which
# of the 16 weights does it influence as a query? And as a key?

# %%
fig, axes = plt.subplots(1, 3, figsize=(9, 2.9))
row, column = torch.zeros(4, 4), torch.zeros(4, 4)
row[1, :] = 1
column[:, 1] = 1
titles_of_roles = [
    "as a query: row 2\nwhat does $x_2$ look for?",
    "as a key: column 2\nwho finds $x_2$?",
    "as a value: times $w_{i2}$\ninto every output $y_i$",
]
for ax, matrix, title in zip(axes, [row, column, column], titles_of_roles):
    show_matrix(matrix, title, rows="$i$ (query)", columns="$j$ (key)", numbers=False, ax=ax)
    for i in range(4):
        for j in range(4):
            ax.text(j, i, "$w_{" + f"{i + 1}{j + 1}" + "}$", ha="center", va="center", fontsize=9,
                    color="black" if matrix[i, j] else "white")  # fmt: skip
    ax.set_xticks(range(4), [1, 2, 3, 4])
    ax.set_yticks(range(4), [1, 2, 3, 4])
plt.show()

# %% [markdown]
# As a query $x_2$ takes part in the whole row $w_{21}, \dots, w_{24}$, as a key in the whole column
# $w_{12}, \dots, w_{42}$. Both include $w_{22}$: a word meets itself too.
#
# Soon each role gets a vector of its own, $q_i$, $k_j$ and $v_j$, and the widths may differ. Queries and keys share the
# width $d_k$, because they are multiplied with each other. Before that, a question about that width.
#
# **How large is a dot product?** Take queries and keys whose entries are independent, with mean 0 and variance 1, and
# measure.

# %%
torch.manual_seed(0)
widths = [4, 16, 64, 256, 1024]
spreads = []
for d_k in widths:
    products = (torch.randn(20_000, d_k) * torch.randn(20_000, d_k)).sum(dim=1)
    spreads.append(products.std().item())
    mean, spread = products.mean().item(), spreads[-1]
    print(f"d_k {d_k:4}   mean {mean:5.2f}   standard deviation {spread:5.2f}   √d_k {d_k**0.5:2.0f}")

log_width, log_spread = torch.tensor(widths).log2(), torch.tensor(spreads).log2()
centred = log_width - log_width.mean()
exponent = (centred * log_spread).sum() / (centred**2).sum()
print(f"fitted: standard deviation = d_k to the power {exponent.item():.3f}")

# %% [markdown]
# The mean stays near 0. It is the **spread** that grows, as $\sqrt{d_k}$: a sum of $d_k$ independent terms of
# variance 1 has variance $d_k$. So dividing by $\sqrt{d_k}$ brings the scores back to size 1, whatever the width:
#
# $$s_{ij} = \frac{q_i \cdot k_j}{\sqrt{d_k}}$$
#
# > **Spot the mistake.** "A vector with all entries $c$ has the length $c\sqrt{k}$; dividing by $\sqrt k$ removes
# > that." The dot product of two such vectors is $k\,c^2$, so this argument would have us divide by $k$. It is the
# > variance that gives the root.
#
# {{exercise attention_scores}}


# %% exercise attention_scores
def attention_scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """How well does each query fit each key? Their dot product, divided by √d_k. No softmax yet.

    q: (..., n, d_k); k: (..., m, d_k). The dots stand for any number of leading axes: none, a batch, or more.
    Returns: (..., n, m), entry [i, j] belongs to query i and key j. The inputs are left as they are.
    """
    ### BEGIN SOLUTION
    d_k = q.shape[-1]
    return q @ k.transpose(-2, -1) / math.sqrt(d_k)  # (..., n, m)
    ### END SOLUTION


# %% check attention_scores
check(attention_scores)

# %% [markdown]
# **What goes wrong without it.** Large scores make the softmax *saturate*: one weight is nearly 1, the others nearly 0,
# and turning the scores a little changes nothing. A network that cannot feel small changes cannot learn from them. The
# derivatives of the softmax form the matrix $J = \operatorname{diag}(w) - w w^\top$. We measure its size for 10 random
# keys, beside the entropy of the weights (at most $\ln 10 = 2.30$, when all are equal).

# %%
torch.manual_seed(0)


def softmax_statistics(d_k, scale, samples=2000):
    """Mean entropy, median size of the Jacobian, and mean and median gradient of the weights with respect to q."""
    q, k = torch.randn(samples, 1, d_k), torch.randn(samples, 10, d_k)
    w = (q @ k.mT * scale).softmax(dim=-1)[:, 0]  # (samples, 10)
    entropy = -(w * w.clamp(min=1e-30).log()).sum(dim=1)
    jacobian = torch.diag_embed(w) - w[:, :, None] * w[:, None]  # (samples, 10, 10)
    through_q = (jacobian @ k * scale).flatten(1).norm(dim=1)
    sizes = jacobian.flatten(1).norm(dim=1)
    return entropy.mean().item(), sizes.median().item(), through_q.mean().item(), through_q.median().item()


widths = [4, 8, 16, 32, 64, 128, 256, 512]
raw = [softmax_statistics(d_k, 1.0) for d_k in widths]
scaled = [softmax_statistics(d_k, d_k**-0.5) for d_k in widths]

fig, axes = plt.subplots(1, 2, figsize=(9, 3.1))
for which, ax, label in ((0, axes[0], "mean entropy in nats"), (1, axes[1], "median norm of $J$")):
    ax.plot(widths, [s[which] for s in raw], "o-", color=COLOURS[1], label="$q\\cdot k$")
    ax.plot(widths, [s[which] for s in scaled], "s-", color=COLOURS[0], label="$q\\cdot k\\,/\\,\\sqrt{d_k}$")
    ax.set_xscale("log", base=2)
    ax.set(xlabel="$d_k$", ylabel=label)
    ax.legend()
axes[0].set_title("How undecided are the weights?")
axes[1].set_title("How much do they react?")
axes[1].set_yscale("log")
plt.show()
print(f"d_k = 512, median norm of J: {raw[-1][1]:.4f} raw, {scaled[-1][1]:.3f} scaled")

# %% [markdown]
# With the scale both curves are flat. Without it the weights harden as the vectors get wider, and the typical
# derivative falls by orders of magnitude.
#
# Two things are often said here that the numbers do not support. The scale does not prevent gradients from
# *exploding*: it prevents them from *vanishing*. And it is no regularisation: it controls a variance. One caveat makes
# it easy to measure the wrong thing:

# %%
print("gradient of the weights with respect to q, d_k = 512      mean     median")
print(f"  raw                                                {raw[-1][2]:9.3f}  {raw[-1][3]:9.4f}")
print(f"  scaled                                             {scaled[-1][2]:9.3f}  {scaled[-1][3]:9.4f}")

# %% [markdown]
# The *mean* gradient is larger without the scale. A few samples stand on the edge between two keys, where a hard
# softmax jumps, and they dominate the mean. The *median*, the typical sample, has almost no gradient. Do look at both.
#
# **Divide by 8.** A well-known walk-through uses two words, $d_k = 64$, and the products 112 and 96. The root of 64
# is 8:

# %%
products = torch.tensor([112.0, 96.0], dtype=torch.float64)
print("scaled scores  ", (products / math.sqrt(64)).tolist())
print("weights        ", [round(w, 4) for w in (products / 8).softmax(dim=0).tolist()])
print("without scaling", [f"{w:.7f}" for w in products.softmax(dim=0).tolist()])

# %% [markdown]
# ## 10 · Scaled dot-product attention
#
# All parts are there. Queries, keys and values go into the rows of three matrices $Q$ $(n, d_k)$, $K$ $(m, d_k)$ and
# $V$ $(m, d_v)$, and
#
# $$\operatorname{Attention}(Q, K, V) = \operatorname{softmax}\!\left(\frac{QK^\top}{\sqrt{d_k}}\right) V$$
#
# This is *scaled dot-product attention*. Its name is its recipe. (Elsewhere you may see one letter $A$ for the numbers
# before the softmax and after it. Here the former are *scores* and the latter *weights*.)

# %% figure
fig, ax = plt.subplots(figsize=(5.2, 4.6))
boxes = {
    "$Q$": (0.8, 0, 0), "$K$": (2.6, 0, 0), "$V$": (4.4, 0, 0), "matrix product": (1.7, 1, 4),
    "divide by $\\sqrt{d_k}$": (1.7, 2, 2), "softmax of each row": (1.7, 3, 1), "matrix product ": (3.1, 4, 4),
    "output": (3.1, 5, 0),
}  # fmt: skip
for label, (x, y, colour) in boxes.items():
    plain = colour == 0
    ax.text(x, y, label, ha="center", va="center", fontsize=10, bbox={
        "boxstyle": "round,pad=0.35", "facecolor": "white" if plain else COLOURS[colour],
        "alpha": 1.0, "edgecolor": "white" if plain else "0.3"})  # fmt: skip
arrows = [((0.8, 0), (1.35, 1), "$(n, d_k)$", -0.75), ((2.6, 0), (2.05, 1), "$(m, d_k)$", 0.15),
          ((1.7, 1), (1.7, 2), "$(n, m)$", 0.1), ((1.7, 2), (1.7, 3), "$(n, m)$", 0.1),
          ((1.7, 3), (2.8, 4), "weights $(n, m)$", -1.45), ((4.4, 0), (3.5, 4), "$(m, d_v)$", 0.1),
          ((3.1, 4), (3.1, 5), "$(n, d_v)$", 0.1)]  # fmt: skip
for (x0, y0), (x1, y1), shape, shift in arrows:
    ax.annotate("", (x1, y1 - 0.24), (x0, y0 + 0.24), arrowprops={"arrowstyle": "->", "color": "0.3"})
    ax.text((x0 + x1) / 2 + shift, (y0 + y1) / 2, shape, fontsize=8, va="center", color="0.25")
ax.set(xlim=(-0.2, 5.2), ylim=(-0.4, 5.4), title="Scaled dot-product attention: n queries, m keys and values")
ax.axis("off")
plt.show()

# %% [markdown]
# **By hand, once.** Three queries, four keys, everything of width 2. To keep the numbers round we write the queries
# in units of $u = \sqrt2 \ln 2$: then the scaled scores are whole multiples of $\ln 2$, and $e^{\text{score}}$ is a
# power of 2.
#
# $$Q = u\begin{pmatrix}1&0\\0&1\\1&1\end{pmatrix}\quad
#   K = \begin{pmatrix}1&0\\0&2\\2&0\\0&1\end{pmatrix}\quad
#   V = \begin{pmatrix}24&0\\0&24\\12&12\\0&0\end{pmatrix}$$
#
# The first query $(1, 0)$ meets the four keys: $1, 0, 2, 0$, in units of $\ln 2$ after the division by $\sqrt 2$.
# Exponentials: $2, 1, 4, 1$, with the sum 8. Weights: $\tfrac28, \tfrac18, \tfrac48, \tfrac18$. Output:
# $\tfrac28(24,0) + \tfrac18(0,24) + \tfrac48(12,12) + \tfrac18(0,0) = (12, 9)$.
#
# Do the second and the third row on paper, then compare.

# %%
u = math.sqrt(2) * math.log(2)
Q = u * torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
K = torch.tensor([[1.0, 0.0], [0.0, 2.0], [2.0, 0.0], [0.0, 1.0]])
V = torch.tensor([[24.0, 0.0], [0.0, 24.0], [12.0, 12.0], [0.0, 0.0]])

scores = reference.attention_scores(Q, K)  # (3, 4)
output, weights = reference.scaled_dot_product_attention(Q, K, V)  # (3, 2), (3, 4)
fig, axes = plt.subplots(1, 3, figsize=(9, 2.6), width_ratios=[4, 4, 2.4])
show_matrix(scores / math.log(2), "scores, in units of ln 2", ax=axes[0])
show_matrix(weights, "weights (0.12 is one eighth)", limits=(0, 1), ax=axes[1])
show_matrix(output, "output", columns="feature", ax=axes[2])
plt.show()

# %% [markdown]
# Now write it, for any number of leading axes. Return the output *and* the weights, in this order: we will want to look
# at them.
#
# {{exercise scaled_dot_product_attention}}


# %% exercise scaled_dot_product_attention
def scaled_dot_product_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V, and the weights it was made with.

    q: (..., n, d_k); k: (..., m, d_k); v: (..., m, d_v). Any number of leading axes.
    Returns: output (..., n, d_v), weights (..., n, m). Gradients can flow back to q, k and v: stay with torch
    operations (no .item(), .numpy() or .detach()). The inputs are left as they are. A score may be 1000 or -1000:
    nothing overflows.
    """
    ### BEGIN SOLUTION
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)  # (..., n, m)
    weights = scores.softmax(dim=-1)  # (..., n, m)
    return weights @ v, weights
    ### END SOLUTION


# %% check scaled_dot_product_attention
check(scaled_dot_product_attention)

# %% [markdown]
# The matrix form says the same as six small steps for one word. Here they are for the first word of *Thinking
# Machines*, with $d_k = 64$: (1) take its query, (2) multiply it with every key, (3) divide by 8, (4) softmax,
# (5) multiply every value by its weight, (6) add up. The last step is a weighted *sum* of vectors, not a dot product
# with one.

# %%
torch.manual_seed(3)
q, k, v = torch.randn(3, 2, 64)  # three matrices with a row for "Thinking" and a row for "Machines"

query = q[0]  # 1
score = [query @ k[0], query @ k[1]]  # 2
score = [s / 8 for s in score]  # 3
total = math.exp(score[0]) + math.exp(score[1])
weight = [math.exp(s) / total for s in score]  # 4
weighted = [weight[0] * v[0], weight[1] * v[1]]  # 5
z = weighted[0] + weighted[1]  # 6

output, _ = reference.scaled_dot_product_attention(q, k, v)
print("weights of Thinking:", [round(w, 3) for w in weight])
print(f"largest difference to the matrix form: {(z - output[0]).abs().max().item():.0e}")

# %% [markdown]
# ## 11 · Three matrices give each role its own vector
#
# So far a word had one vector for three jobs. That is a poor fit: *it* should look for nouns, and be found as a
# pronoun. Three learned matrices give every $x_i$ a query, a key and a value:
#
# $$q_i = x_i W^Q \qquad k_i = x_i W^K \qquad v_i = x_i W^V$$
#
# The matrices are what attention learns. They may change the width: in the paper a vector of 512 features becomes
# queries, keys and values of 64. That is a choice of the designers; what must hold is only that queries and keys are
# equally wide. And each is projected **once**: if you see $Q = XW^Q$ in one line and $QW_i^Q$ in the next, one of the
# two $Q$s is meant to be the plain input.
#
# {{exercise project_qkv}}


# %% exercise project_qkv
def project_qkv(
    x: torch.Tensor, w_q: torch.Tensor, w_k: torch.Tensor, w_v: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Three views of the same vectors: queries, keys and values.

    x: (..., time, d_in), a token is a row; w_q: (d_in, d_k); w_k: (d_in, d_k); w_v: (d_in, d_v).
    Returns: q (..., time, d_k), k (..., time, d_k), v (..., time, d_v).
    """
    ### BEGIN SOLUTION
    return x @ w_q, x @ w_k, x @ w_v
    ### END SOLUTION


# %% check project_qkv
check(project_qkv)

# %% [markdown]
# **Does a word look mostly at itself?** It is often said so. Without projections it is nearly forced:
# $x_i\cdot x_i = \lVert x_i\rVert^2$ is large. With matrices it is up to them. Random ones know nothing of identity:

# %%
torch.manual_seed(0)
own_without, own_with = 0, 0
for _ in range(300):
    x = torch.randn(10, 64)
    w_q, w_k, w_v = torch.randn(3, 64, 32) / 8
    q, k, _ = reference.project_qkv(x, w_q, w_k, w_v)
    own_without += (reference.attention_scores(x, x).argmax(dim=1) == torch.arange(10)).sum().item()
    own_with += (reference.attention_scores(q, k).argmax(dim=1) == torch.arange(10)).sum().item()
print("rows in which the own token has the highest score (by chance: 10 %)")
print(f"  without projections     {own_without / 3000:6.1%}")
print(f"  with random projections {own_with / 3000:6.1%}")

# %% [markdown]
# **Who is tired?** *The animal did not cross the street because it was too tired.* Does *it* mean the animal or the
# street? Replace *tired* by *wide* and the answer changes. We can build a tiny solver by hand, in two rounds of
# attention. Every word has six features. In round 1 the pronoun looks for the adjective and takes over what it says.
# In round 2 it looks for a noun that fits. Nothing here is trained; the point is that matrices *can* do it.

# %%
NOUN, LIVING, PLACE, OF_LIVING, OF_PLACE, PRONOUN = range(6)
lexicon = {"animal": [NOUN, LIVING], "street": [NOUN, PLACE], "it": [PRONOUN], "tired": [OF_LIVING], "wide": [OF_PLACE]}


def matrix_of(*entries, size=6):
    """A (6, 6) matrix with a few entries: (from feature, to feature, strength)."""
    matrix = torch.zeros(size, size)
    for source, target, strength in entries:
        matrix[source, target] = strength
    return matrix


rounds = [  # W_q: what a feature asks for; W_k: what a feature offers; W_v: what it hands over
    (
        matrix_of((PRONOUN, 0, 12.0)),
        matrix_of((OF_LIVING, 0, 1.0), (OF_PLACE, 0, 1.0)),
        matrix_of((OF_LIVING, OF_LIVING, 1.0), (OF_PLACE, OF_PLACE, 1.0)),
    ),
    (
        matrix_of((OF_LIVING, LIVING, 12.0), (OF_PLACE, PLACE, 12.0)),
        matrix_of((LIVING, LIVING, 1.0), (PLACE, PLACE, 1.0)),
        torch.eye(6),
    ),
]


def read(words):
    """The weights of both rounds, each (time, time)."""
    x = torch.zeros(len(words), 6)
    for position, word in enumerate(words):
        x[position, lexicon.get(word, [])] = 1.0
    seen = []
    for w_q, w_k, w_v in rounds:
        output, weights = reference.scaled_dot_product_attention(*reference.project_qkv(x, w_q, w_k, w_v))
        x = x + output  # what was found is added to what was there
        seen.append(weights)
    return seen


sentences = [f"the animal did not cross the street because it was too {word}".split() for word in ("tired", "wide")]
fig, axes = plt.subplots(2, 1, figsize=(9, 3.8))
for ax, words in zip(axes, sentences):
    first, second = read(words)
    it = words.index("it")
    for height, weights, colour in ((1, first, COLOURS[0]), (-1, second, COLOURS[1])):
        for j, weight in enumerate(weights[it].tolist()):
            if j != it and weight > 0.02:
                arc = f"arc3,rad={0.35 * height * (1 if j < it else -1)}"
                ends = ((j, 0.22 * height), (it, 0.22 * height))
                line = {"arrowstyle": "-", "color": colour, "alpha": weight**0.5, "linewidth": 5 * weight + 0.5}
                ax.annotate("", *ends, arrowprops={**line, "connectionstyle": arc})
    for j, word in enumerate(words):
        ax.text(j, 0, word, ha="center", va="center", fontsize=11, weight="bold" if j == it else "normal")
    ax.set(xlim=(-0.6, len(words) - 0.4), ylim=(-2.0, 1.3))
    ax.axis("off")
axes[0].set_title("Where 'it' looks: round 1 above the line (blue), round 2 below (orange)")
plt.show()
for words in sentences:
    weights = read(words)[1][words.index("it")]
    shares = ", ".join(f"{noun} {weights[words.index(noun)].item():.2f}" for noun in ("animal", "street"))
    print(f"… it was too {words[-1]}: {shares}")

# %% [markdown]
# Round 2 could not succeed without round 1: *it* has to hear *tired* before it can ask for something alive. That is one
# reason to stack layers.
#
# **A warning about such pictures.** Weights show where values were *taken from*. They do not prove that it mattered. If
# all value rows are equal, any weights give the same output:

# %%
torch.manual_seed(0)
same_values = torch.tensor([[3.0, -1.0]]).expand(4, 2)
for _ in range(2):
    output, weights = reference.scaled_dot_product_attention(3 * torch.randn(1, 2), torch.randn(4, 2), same_values)
    print("weights", [round(w, 2) for w in weights[0].tolist()], "  output", [round(o, 4) for o in output[0].tolist()])

# %% [markdown]
# Read a heat map as a question to the model, not as its answer. How much attention explains is disputed: Jain and
# Wallace (2019) and Wiegreffe and Pinter (2019) argue the two sides.
#
# ## 12 · Self and cross
#
# Nothing in the formula says where queries, keys and values come from. If all three are made from one sequence, it is
# **self-attention**. If the queries come from one sequence and keys and values from another, it is **cross-attention**.
# The computation is the same; the weights are no longer square. A speech recogniser can ask with text (queries) what it
# needs from the sound (keys and values):

# %%
torch.manual_seed(0)
text, audio = torch.randn(2, 5, 16), torch.randn(2, 80, 24)  # 5 characters of 16 features, 80 frames of 24
w_q, w_k, w_v = torch.randn(16, 8), torch.randn(24, 8), torch.randn(24, 12)
output, weights = reference.scaled_dot_product_attention(text @ w_q, audio @ w_k, audio @ w_v)
print("output ", tuple(output.shape), " one vector for each character")
print("weights", tuple(weights.shape), "each character over all frames")

# %% [markdown]
# **Soft alignment.** In translation cross-attention finds out which source word a target word comes from. *Good
# morning!* is *zǎoshang hǎo!* in Chinese: *zǎoshang* is the morning, *hǎo* is good. The order is crossed. With vectors
# in which both languages share their meaning (here three features, by hand), attention finds that by itself.

# %%
meaning = {"Good": [2.4, 0.5, 0.0], "morning": [0.4, 2.6, 0.0], "!": [0.0, 0.1, 2.7],
           "zǎoshang": [0.5, 2.2, 0.1], "hǎo": [2.3, 0.3, 0.0]}  # fmt: skip
target, source = ["Good", "morning", "!"], ["zǎoshang", "hǎo", "!"]
q = torch.tensor([meaning[word] for word in target])
k = torch.tensor([meaning[word] for word in source])
_, weights = reference.scaled_dot_product_attention(q, k, k)
show_matrix(
    weights,
    "which source word does a target word look at?",
    rows="target (query)",
    columns="source (key)",
    row_names=target,
    column_names=source,
    limits=(0, 1),
)
plt.show()

# %% [markdown]
# ## 13 · What it costs
#
# Attention compares everything with everything: $n$ tokens have $n^2$ scores. But a layer has other work to do as well.
# Count the multiplications of two numbers in the matrix products. A product of an $(a, b)$ matrix and a $(b, c)$ matrix
# takes $a\,b\,c$. For $n$ tokens, one head, and the width $d = d_k = d_v$ throughout:
#
# - **projections**: queries, keys and values, and a fourth matrix of the same size that is applied to the output (you
#   will meet it in the notebook on multi-head attention). Each is $(n, d) \cdot (d, d)$.
# - **attention**: the scores $QK^\top$, and the weighted sum of the values.
#
# Count nothing else: no additions, no scaling, no softmax.
#
# {{exercise attention_cost}}


# %% exercise attention_cost
def attention_cost(n: int, d: int) -> tuple[int, int]:
    """How many multiplications the matrix products of one attention layer take, for n tokens of width d.

    Returns: (projections, attention), two whole numbers: the four projections, and scores plus weighted sum.
    """
    ### BEGIN SOLUTION
    projections = 4 * n * d * d
    attention = 2 * n * n * d
    return projections, attention
    ### END SOLUTION


# %% check attention_cost
check(attention_cost)

# %%
d = 512
print(f"{'n':>6} {'projections':>16} {'attention':>16} {'projections / attention':>24}")
for n in (10, 100, 512, 1024, 4096, 16384):
    projections, attention = reference.attention_cost(n, d)
    print(f"{n:6} {projections:16,} {attention:16,} {projections / attention:24.2f}")

lengths = [2**i for i in range(3, 16)]
costs = [reference.attention_cost(n, d) for n in lengths]
fig, ax = plt.subplots(figsize=(6.5, 3.2))
ax.loglog(lengths, [c[0] for c in costs], "o-", label="four projections: $4nd^2$")
ax.loglog(lengths, [c[1] for c in costs], "s-", label="scores and sum: $2n^2d$")
ax.axvline(2 * d, color="0.6", linestyle=":")
ax.text(2 * d * 1.15, costs[0][1], "$n = 2d = 1024$", fontsize=9, color="0.3")
ax.set(title="Multiplications in one attention layer, d = 512", xlabel="tokens n", ylabel="multiplications")
ax.legend()
plt.show()

# %% [markdown]
# "Attention is quadratic" is true, and for short texts beside the point: at 10 tokens the projections cost 102 times as
# much. Both are equal at $n = 2d$. Beyond that the square takes over, and much of the later course is about that.
#
# ## In your own words
#
# In *the cat walks on the street* both words *the* got exactly the same row of weights and the same output (section 5).
# Explain in two or three sentences why this must be so, whether learned matrices $W^Q, W^K, W^V$ would change it, and
# what would have to be added to the input so that they differ. (2 points, read by a person.)

# %% answer why_the_equals_the 2 [markdown]
# ### BEGIN SOLUTION
# The weights and the output are computed from the content of the vectors alone, and both words have the same vector:
# same query, same keys, same values, hence the same result. Learned matrices do not change that, because equal
# vectors are multiplied by the same matrices and stay equal (attention is permutation equivariant with them, too).
# Something that depends on the position has to be added to the vectors, so that the first and the fifth word are not
# equal any more.
# ### END SOLUTION

# %% [markdown]
# ## What you can do now
#
# - Read a dot product as relevance, term by term, and say how such vectors are learned.
# - Say what a query, a key and a value are, and explain attention as a soft look-up and as an expectation.
# - Write self-attention as a loop and as two matrix products, for any batch.
# - Say why the scores are divided by $\sqrt{d_k}$, and show it with a measurement that is not misleading.
# - Work through $\operatorname{softmax}(QK^\top/\sqrt{d_k})V$ on paper.
# - Say what attention does not know (order), what it alone does (let tokens meet), and what it costs.
#
# `solution("scaled_dot_product_attention")` shows the course's own version once you have had yours checked.
#
# ## Reading
#
# - Vaswani et al. (2017), *Attention Is All You Need*, section 3.2: one page, and you can now read every symbol of it.
# - Bahdanau, Cho and Bengio (2015), *Neural Machine Translation by Jointly Learning to Align and Translate*: soft
#   alignment, before the Transformer.
# - Koren, Bell and Volinsky (2009), *Matrix Factorization Techniques for Recommender Systems*: the film map.
# - Simonyan, Vedaldi and Zisserman (2014), *Deep Inside Convolutional Networks*: gradient saliency.
# - Jain and Wallace (2019), *Attention is not Explanation*; Wiegreffe and Pinter (2019), *Attention is not not
#   Explanation*.
