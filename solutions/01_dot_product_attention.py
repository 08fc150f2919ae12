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
# You will build **{{term attention}}**, the heart of the Transformer: a look-up in which every entry answers, each in
# proportion to how well it fits the question. It starts with two vectors and ends with
# $\text{softmax}(QK^\top/\sqrt{d_k})\,V$, written by you, understood factor by factor, with its cost counted.

# %% setup
import math
import statistics
import time

import matplotlib.pyplot as plt
import torch
from torch import nn

from course_lib import check, hint, solution, yours
from course_lib import dot_product_attention as reference
from course_lib.plotting import COLOURS, PARTS, show_map, show_matrix, use_course_style
from course_lib.settings import course_device

torch.manual_seed(0)
use_course_style()
device = course_device()

# %% figure Where this notebook is on the map
show_map("01_dot_product_attention")

# %% [markdown]
# The demonstrations below use `reference`, the course's own version of what you are going to write, and a few use your
# own version once it passes its check. They run whether or not you have done the exercises.
#
# ## 1 · Relevance is a dot product
#
# Read the word *eat*. You look for two things at once: *who* eats and *what* is eaten. If the sentence offers a person
# and an apple, these two words matter to you, and the other words hardly do. A network that reads needs the same
# thing: a number that says how much one item matters to another.
#
# Film recommendation needs that number too, and it is easier to see there. Describe each film by three
# {{term feature|features}} and each viewer by the same three: how romantic is the film, and how much does the viewer
# like romance? The **{{term dot product}}** multiplies feature by feature and adds up.

# %%
features = ["romance", "action", "comedy"]
films = {"Harbour Lights": [0.9, -0.6, 0.1], "Night Convoy": [-0.4, 1.0, -0.5], "Hearts on Fire": [0.9, 0.9, -0.2]}
viewers = {"Ada": [0.8, -0.9, 0.3], "Ben": [0.9, -0.4, 0.1], "Cem": [-0.3, 0.9, -0.7]}

film_matrix = torch.tensor(list(films.values()))  # (film, feature)
viewer_matrix = torch.tensor(list(viewers.values()))  # (viewer, feature)
scores = viewer_matrix @ film_matrix.T  # (viewer, film)

# %% figure A score for each viewer and each film
fig, ax = plt.subplots(figsize=(6, 3.2))
show_matrix(
    scores,
    "score = features of the viewer · features of the film",
    rows="viewer",
    columns="film",
    row_names=list(viewers),
    column_names=list(films),
    diverging=True,
    ax=ax,
)
plt.show()

# %% [markdown]
# **Sign and size.** A term is positive if both signs agree: a romantic film and a viewer who likes romance, or an
# unromantic film and a viewer who dislikes it. A large feature counts for more than a small one: "a little romantic"
# moves the score a little.
#
# **Spot the mistake.** "Ada likes romance and *Hearts on Fire* is romantic. The signs agree, so the dot product is
# positive." That is true of *one term*. The score is the sum of all terms, and they may pull in different directions:

# %%
ada, film = torch.tensor(viewers["Ada"]), torch.tensor(films["Hearts on Fire"])
for name, a, b in zip(features, ada, film):
    print(f"{name:8} {a:5.1f} × {b:5.1f} = {a * b:6.2f}")
print(f"total {(ada @ film).item():23.2f}")

# %% claims
claim("the first term is positive and the sum is negative", ada[0] * film[0] > 0 > ada @ film)

# %% [markdown]
# ## 2 · Nobody has to write the features down
#
# Millions of films cannot be described by hand, and few people could describe their own taste in numbers. But people do
# leave ratings. So we turn the problem around: the features become **{{term parameter|parameters}}**, and we adjust
# them until their dot products agree with the ratings that we know. This is *matrix factorisation*: a table of ratings
# is approximated by the product of two thin matrices, one of viewers and one of films. The score is still a dot
# product. Only the origin of the vectors has changed.
#
# Here are 12 invented films and 60 invented viewers, each with a taste of their own. The model is told nothing about
# films or tastes. It is shown half of the ratings, and we watch its error on the other half.

# %%
torch.manual_seed(0)
titles = {
    "Harbour Lights": (-1.8, 0.5), "Paris, Again": (-1.5, -0.1), "Letters Home": (-1.2, 0.9),
    "The Wrong Bride": (-1.2, -0.9), "Aunt Olga": (-0.4, -1.1), "Two Left Feet": (0.3, -1.0),
    "The Witness": (-0.4, 1.0), "Winter Trial": (0.3, 0.8), "Cops and Cakes": (1.1, -0.8),
    "Night Convoy": (1.7, 0.8), "Last Bridge": (1.4, 0.3), "Full Throttle": (1.9, -0.3),
}  # fmt: skip
hidden_films = torch.tensor(list(titles.values()))  # (film, 2): makes the ratings and is not used again
hidden_viewers = torch.randn(60, 2)
ratings = hidden_viewers @ hidden_films.T + 0.2 * torch.randn(60, 12)  # (viewer, film)
known = torch.rand(60, 12) < 0.5

viewer_features = nn.Parameter(0.1 * torch.randn(60, 2))
film_features = nn.Parameter(0.1 * torch.randn(12, 2))
optimiser = torch.optim.Adam([viewer_features, film_features], lr=0.05, weight_decay=1e-3)
for step in range(301):
    error = viewer_features @ film_features.T - ratings  # (viewer, film)
    loss = (error[known] ** 2).mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    if step % 100 == 0:
        known_error, unknown_error = (error[part].pow(2).mean().sqrt().item() for part in (known, ~known))
        print(f"step {step:3}   error on known ratings {known_error:.2f}   on unknown ratings {unknown_error:.2f}")

# %% claims
spread = ratings[~known].std().item()
claim("the error on unknown ratings falls to a small part of their spread", unknown_error < 0.35 * spread)

# %% [markdown]
# The error on ratings that the model has never seen falls as well: the vectors have learned something about the films.
# What? Draw them.

# %% figure Twelve films, placed by ratings alone
with torch.no_grad():
    # Rotating both sets of vectors together changes no dot product, so we may choose the axes.
    # The first one is the direction in which the films differ most.
    _, _, rotation = torch.linalg.svd(film_features - film_features.mean(dim=0))
    learned = film_features @ rotation.T
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

# %% claims
across, up = learned[:, 0], learned[:, 1]
claim(
    "love stories are on the left, action is on the right", across[:4].max() < across[4:9].median() < across[9:].min()
)
comic, serious = [place[t] for t in ("Aunt Olga", "Two Left Feet")], [place[t] for t in ("The Witness", "Winter Trial")]
claim("comic films are below, serious ones above", up[comic].max() < 0 < up[serious].min())

# %% [markdown]
# From left to right the map goes from love stories to action, and from bottom to top it goes from comic to serious.
# Nobody mentioned romance or comedy: whoever likes *Paris, Again* tends to like *Harbour Lights*, and two numbers per
# film have to account for that. The *directions* are learned, the *axes* are our choice: rotate all films and all
# viewers by the same angle, and every dot product stays as it was. Koren, Bell and Volinsky (2009) drew such a map for
# real films.
#
# Attention works like this: dot products between learned vectors decide what is relevant to what, and training finds
# the vectors.
#
# ## 3 · A dictionary that always answers
#
# A Python dictionary compares your query with its keys and returns the value of the one key that is *equal*. If no key
# is equal, there is no answer.

# %%
sounds = {"cat": "meow", "dog": "woof"}
print(sounds.get("cat"), sounds.get("kitten"))

# %% [markdown]
# A *soft* dictionary lets every key match a little. It has the same three parts, and they keep their names for the
# rest of the course:
#
# | part | its question | in a library |
# |---|---|---|
# | **{{term query}}** $q$ | what am I looking for? | the slip you hand in |
# | **{{term key}}** $k_j$ | what is this entry about? | the label on a spine |
# | **{{term value}}** $v_j$ | what is in it? | the text of the book |
#
# The look-up has two steps. *Compare* the query with every key; the result is a {{term score}} $s_j = q \cdot k_j$.
# *Collect* all values, each in proportion to its match. The {{term softmax}} of notebook 0 turns scores into
# proportions: all positive, with sum 1. With $m$ keys:
#
# $$\text{lookup}(q) = \sum_{j=1}^m w_j\, v_j \qquad w_j = \frac{e^{q\cdot k_j}}{\sum_{l=1}^m e^{q\cdot k_l}}$$
#
# {{exercise soft_lookup}}


# %% exercise soft_lookup
def soft_lookup(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """The average of all values, each weighted by how well its key fits the query. No scale.

    query: (d,); keys: (m, d); values: (m, d_v), row j belongs to key j.
    Returns: (d_v,), the sum of w_j v_j with w = softmax of the dot products of the query with the keys. A dot product
    may be 1000 or -1000, and nothing may overflow.
    """
    ### BEGIN SOLUTION
    scores = keys @ query  # (m,)
    weights = scores.softmax(dim=0)  # (m,)
    return weights @ values  # (d_v,)
    ### END SOLUTION


# %% check soft_lookup
check(soft_lookup)

# %% [markdown]
# If you are stuck, unfold the hints in the report, or run `hint("soft_lookup")`: each call tells you a little more.
#
# Move the query and watch. Which key wins when the query points at it? What happens when you make the query longer, and
# what happens when it is nearly 0? (Here each key is its own value.)

# %% figure A query among keys
from course_lib.interactive import query_among_keys

query_among_keys(scaled=False)

# %% [markdown]
# **An animal that resembles four others.** Père David's deer is called *the four unlikes* in Chinese: it has the
# antlers of a deer, the hooves of an ox, the tail of a donkey and the face of a horse, and is none of them. Suppose
# you have never seen one and are told its features. Who are its relatives, and how tall might it be? The query is the
# unknown animal, the keys are the features of six known ones, and the values are what we know about these.

# %%
# five features: antlers, cloven hooves, a long face, a tufted tail, laying eggs
query = torch.tensor([1.5, 1.0, 0.5, 0.5, -2.0])
animals = {
    "deer": [1.0, 1.0, 0.0, 0.0, -0.5],
    "ox": [0.0, 1.0, 0.0, 1.0, -0.5],
    "sheep": [0.0, 1.0, 0.0, 0.0, -0.5],
    "horse": [0.0, 0.0, 1.0, 0.0, -0.5],
    "donkey": [0.0, 0.0, 1.0, 1.0, -0.5],
    "frog": [0.0, 0.0, 0.0, 0.0, 2.0],
}
keys = torch.tensor(list(animals.values()))  # (6, 5)
heights = torch.tensor([[1.20], [1.40], [0.70], [1.60], [1.10], [0.05]])  # (6, 1): metres, one value for each key

scores = keys @ query  # (6,)
weights = scores.softmax(dim=0)  # (6,)
for name, score, weight in zip(animals, scores, weights):
    print(f"{name:7} score {score:5.2f}   weight {weight:.4f}")
print("the answer is a mix:", " + ".join(f"{weight:.2f} {name}" for name, weight in zip(animals, weights)))
look_up = yours("soft_lookup", soft_lookup)
print(f"its height, mixed in the same way: {look_up(query, keys, heights).item():.2f} m")

# %% claims
claim("the deer is its nearest relative, with score 3.5", scores.argmax() == 0 and abs(scores[0] - 3.5) < 1e-6)
claim("half of the answer comes from the deer", 0.45 < weights[0] < 0.55)
claim("the guess is about 1.2 m", abs(look_up(query, keys, heights).item() - 1.2) < 0.02)
claim("the frog's weight is 0.0003", 0.00025 < weights[-1] < 0.00035)

# %% [markdown]
# Check one by hand: the score of the deer is $1.5 + 1 + 0 + 0 + 1 = 3.5$. Half of the answer comes from the deer, the
# other half from four animals that share a feature or two. The guess is good: about 1.2 m at the shoulder is right.
#
# Look at the frog. It disagrees on the one feature that it has, so its score is $-4$ and its weight 0.0003: it is as
# good as ignored. That is how attention silences what is irrelevant. The weight is not *exactly* 0: $e^s$ never is.
#
# **The same thing, as an expectation.** Weights that are positive and sum to 1 are probabilities. So $\sum_j w_j v_j$
# is the *expected value* of a random draw that takes $v_j$ with probability $w_j$. We can check that by drawing.

# %%
torch.manual_seed(1)
draws = heights[torch.multinomial(weights, 20_000, replacement=True), 0]  # (20000,)
running_mean = draws.cumsum(0) / torch.arange(1, 20_001)
expected = (weights @ heights).item()
print(f"mean of 20 000 draws {running_mean[-1].item():.4f}, one matrix product {expected:.4f}")

# %% figure Attention is the mean of a random look-up
fig, ax = plt.subplots(figsize=(7, 2.8))
ax.semilogx(torch.arange(1, 20_001), running_mean, label="mean of the draws so far")
ax.axhline(expected, color=COLOURS[1], linestyle="--", label="weights @ values")
ax.set(title="Attention is the mean of a random look-up", xlabel="number of draws", ylabel="height in metres")
ax.legend()
plt.show()

# %% claims
claim("the draws approach the matrix product", abs(running_mean[-1].item() - expected) < 0.02)

# %% [markdown]
# The matrix product gives at once what the draws approach slowly. And unlike a draw it has a {{term gradient}}.
#
# ## 4 · Why it is called attention
#
# A weighted sum can leave things out. Take the input $[1,2,3,4,5]$ and the weights $[0,0,0,\tfrac12,\tfrac12]$:

# %%
x = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
w = torch.tensor([0.0, 0.0, 0.0, 0.5, 0.5])
print("weighted sum:", (w @ x).item())
print("first three inputs replaced:", (w @ torch.tensor([100.0, -7.0, 0.0, 4.0, 5.0])).item())

# %% claims
claim("the first three make no difference", w @ x == w @ torch.tensor([100.0, -7.0, 0.0, 4.0, 5.0]))

# %% [markdown]
# The result pays attention to the last two numbers; the others make no difference. (This saves no work, though: all
# five products are computed, three of them with 0. At the end of this notebook you will count what attention costs.)
#
# **Where did you look?** To tell which sport a photo shows, you look at hands and feet; to guess somebody's age, at the
# face. We can ask a network the same question. One answer is a gradient: how much would the output change if this
# part of the input changed? Drawn over a picture, it is a heat map that lights up, say, the dog in a photo that was
# classified as a dog: a *saliency map* (Simonyan et al. 2014). It is computed afterwards, and from any network,
# even if nothing in it is called attention. In an attention model the weights are part of the computation itself.
#
# Let us compare the two. Each input has eight {{term token|tokens}}, and each token has a marker, a number, and noise.
# One token has its marker set, and the right answer is that token's number. Here are a plain network and one that
# attends:

# %%
torch.manual_seed(0)


def make_batch(size):
    x = torch.randn(size, 8, 3)  # (batch, token, feature): marker, number, noise
    place = torch.randint(8, (size,))
    x[:, :, 0] = nn.functional.one_hot(place, 8)
    return x.to(device), x[torch.arange(size), place, 1].to(device)


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


# %% [markdown]
# Both are trained on the same task, in the same number of steps:

# %%
plain, attending = Plain().to(device), Attending().to(device)
for name, model in {"plain": plain, "attending": attending}.items():
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(800):
        inputs, targets = make_batch(128)
        loss = ((model(inputs) - targets) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{name:9} {parameters:4} parameters, mean squared error {loss.item():.3f}")

# %% [markdown]
# Now ask both where they looked, on six new inputs. `torch.autograd.grad` gives the slope of the outputs with respect
# to the inputs; we keep the slope with respect to each token's number.

# %%
inputs, _ = make_batch(6)
inputs.requires_grad_()
(slope,) = torch.autograd.grad(plain(inputs).sum(), inputs)  # (6, 8, 3)
saliency = slope[:, :, 1].abs()  # (6, 8)
saliency = saliency / saliency.sum(dim=1, keepdim=True)  # as shares, to be compared with weights
built_in = attending.weights(inputs)  # (6, 8)

# %% figure Read off afterwards, and built in
fig, axes = plt.subplots(1, 3, figsize=(9, 3.1), sharey=True)
panels = [
    (inputs[:, :, 0], "the marked token"),
    (saliency, "read off: gradient of the plain network"),
    (built_in, "built in: weights of the attending one"),
]
for ax, (shares, title) in zip(axes, panels):
    show_matrix(shares, title, rows="input", columns="token", limits=(0, 1), numbers=False, ax=ax)
    ax.title.set_fontsize(9)
axes[1].set_ylabel("")
axes[2].set_ylabel("")
plt.show()

# %% claims
marked = inputs[:, :, 0].argmax(dim=1)
claim("the weights point at the marked token in every row", (built_in.argmax(dim=1) == marked).all())
claim("the gradient does so in nearly every row", (saliency.argmax(dim=1) == marked).sum() >= 5)
on_it = [shares[range(6), marked].mean() for shares in (saliency, built_in)]
claim("but less cleanly", on_it[0] < on_it[1])

# %% [markdown]
# Both point at the right token, the gradient less cleanly. It had to be computed after training, from a network that
# itself never computes such a thing. The weights on the right are the very numbers the output was made with. (Are
# they an *explanation*? Section 11 comes back to that.)
#
# ## 5 · Self-attention, in its simplest form
#
# Now let a sequence look itself up. There is a vector for each word, $x_1, \dots, x_n$. Each word in turn is the
# query, and all words, itself included, are keys and values:
#
# $$y_i = \sum_j w_{ij}\, x_j \qquad w_{ij} = \operatorname{softmax}_j (x_i \cdot x_j)$$
#
# This is **{{term self-attention}}**. A {{term sequence}} goes in, and a sequence of the same length comes out. Note
# two things.
#
# - $w_{ij}$ is **not a parameter**. In an ordinary layer the weights are learned and then fixed; here they are computed
#   anew from each input. The formula contains no parameter at all: what it does depends entirely on the
#   vectors it is given.
# - $w_{ij}$ depends on *what* stands at $i$ and $j$, not on *where* they are.
#
# Write it with loops first, the way the formula reads: for every $i$, score every $j$, softmax, add up. No scale here.
#
# {{exercise self_attention}}


# %% exercise self_attention
def self_attention(x: torch.Tensor) -> torch.Tensor:
    """Every vector of a sequence looks up every vector of the sequence, itself included. No parameters, no scale.

    x: (time, d).
    Returns: (time, d), row i is the sum over j of w_ij x_j, where w_i = softmax over j of x_i · x_j. A dot product may
    be 1000 or more, and nothing may overflow.
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
# **The cat is on the mat.** To understand *on* you have to know what is on what: *cat* and *mat*. The word *the* tells
# you next to nothing. If the vectors are learned, training will make $x_\text{on}\cdot x_\text{cat}$ and
# $x_\text{on}\cdot x_\text{mat}$ large and the products with *the* small or negative. We set such vectors by hand and
# look at the {{term attention weights|weights}}.

# %%
vectors = {"the": [-0.3, -0.3, -0.4], "cat": [1.3, 0.3, 0.2], "is": [0.7, 0.9, -0.2],
           "on": [1.0, 0.2, 1.0], "mat": [0.2, 0.4, 1.4]}  # fmt: skip
words = "the cat is on the mat".split()
x = torch.tensor([vectors[word] for word in words])  # (6, 3)
dot_products = x @ x.T  # (6, 6)
weights = dot_products.softmax(dim=1)  # (6, 6)

# %% figure The cat is on the mat: dot products and weights
fig, axes = plt.subplots(1, 2, figsize=(9, 3.9))
show_matrix(dot_products, "dot products", row_names=words, column_names=words, diverging=True, ax=axes[0])
show_matrix(weights, "weights: softmax of each row", row_names=words, column_names=words, limits=(0, 0.5), ax=axes[1])
plt.show()

# %% claims
on, cat, mat, the = words.index("on"), words.index("cat"), words.index("mat"), words.index("the")
claim("on looks mostly at itself, at cat and at mat", weights[on, [on, cat, mat]].sum() > 0.8)
claim("from words with content, the gets little", weights[[on, cat, mat], the].max() < 0.06)
claim("the weights are not symmetric", not torch.allclose(weights, weights.T, atol=0.05))
claim("both rows of the are equal", torch.equal(weights[0], weights[4]))

# %% [markdown]
# What to notice:
#
# - *on* looks mostly at itself, at *cat* and at *mat*; all three give *the* next to nothing.
# - The dot products are symmetric, the weights are not: each **row** is normalised by itself and sums to 1.
# - The two rows of *the* are identical. Same word, same vector, same result, wherever it stands.
#
# ## 6 · All words at once
#
# The loop handles one word after the other, and it is easy to believe that this is how it has to be. But $y_3$ does
# not need $y_2$: all positions can be computed at the same time. Put the vectors into the rows of a matrix $X$. Then
# all dot products are one matrix product, and so are all sums:
#
# $$Y = \operatorname{softmax}(X X^\top)\, X$$
#
# with the softmax along each row. With a {{term batch}} of sentences, $X$ is `(batch, time, d)`, and the sentences
# must not see each other. `A @ B` multiplies the last two axes and leaves the batch axis alone. The wrong way first:
# on a tensor with three axes, `.T` reverses all of them.

# %%
x = torch.zeros(2, 5, 3)  # 2 sentences, 5 words, 3 features
print("all axes reversed (x.T)", tuple(x.permute(2, 1, 0).shape), "sentences and features have changed places")
print("x.transpose(1, 2)      ", tuple(x.transpose(1, 2).shape), "each sentence transposed by itself")
print("x @ x.transpose(1, 2)  ", tuple((x @ x.transpose(1, 2)).shape), "a score for each pair of words of a sentence")

# %% [markdown]
# {{exercise batched_self_attention}}


# %% exercise batched_self_attention
def batched_self_attention(x: torch.Tensor) -> torch.Tensor:
    """self_attention of every sequence in a batch, without a loop: two matrix products and a softmax. No scale.

    x: (batch, time, d).
    Returns: (batch, time, d). A dot product may be 1000 or more, and nothing may overflow.
    """
    ### BEGIN SOLUTION
    scores = x @ x.transpose(1, 2)  # (batch, time, time)
    weights = scores.softmax(dim=2)  # (batch, time, time)
    return weights @ x  # (batch, time, d)
    ### END SOLUTION


# %% check batched_self_attention
check(batched_self_attention)

# %% [markdown]
# The numbers are the same, the speed is not. For $n$ words the loop asks Python for $2n^2$ small steps; the matrix form
# asks for three large ones.


# %%
def seconds(function, argument, repeats):
    """The median time of a call. The first call is slower than the others and is not counted."""
    function(argument)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function(argument)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


lengths = [4, 8, 16, 32, 64, 128]
sequences = [torch.randn(n, 16) for n in lengths]
loop_seconds = [seconds(reference.self_attention, x, 3) for x in sequences]
matrix_seconds = [seconds(reference.batched_self_attention, x[None], 20) for x in sequences]
looped, at_once = reference.self_attention(sequences[3]), reference.batched_self_attention(sequences[3][None])[0]
print(f"largest difference at length 32: {(looped - at_once).abs().max().item():.0e}")
print(f"at length 128: {2 * 128**2} small steps in the loop, 3 large ones in the matrix form")

# %% figure The time of the loop and of the matrix form
fig, ax = plt.subplots(figsize=(6, 3))
ax.loglog(lengths, loop_seconds, "o-", label="loop over i and j")
ax.loglog(lengths, matrix_seconds, "s-", label="two matrix products")
ax.set(title="The same numbers, in different time", xlabel="sequence length n", ylabel="seconds")
ax.legend()
plt.show()

# %% claims
claim("loop and matrix form give the same numbers", torch.allclose(looped, at_once, atol=1e-4))

# %% [markdown]
# ## 7 · Two properties to remember
#
# **Order means nothing.** Shuffle the tokens, and the outputs are shuffled in the same way and otherwise unchanged.
# This is called *permutation {{term equivariance}}*: self-attention treats its input as a set, not as a sequence. The
# order of the words has to be put in by other means; that is the subject of notebook 3.

# %%
x = torch.randn(1, 6, 4)
order = torch.randperm(6)
shuffled_before = reference.batched_self_attention(x[:, order])
shuffled_after = reference.batched_self_attention(x)[:, order]
print("order", order.tolist(), " largest difference", f"{(shuffled_before - shuffled_after).abs().max().item():.0e}")

# %% claims
claim("shuffling before or after makes no difference", torch.allclose(shuffled_before, shuffled_after, atol=1e-5))

# %% [markdown]
# **It is the only place where tokens meet.** A Transformer has other layers, which notebook 5 builds: the
# {{term feed-forward network}} (a linear layer, {{term ReLU}}, another linear layer) and {{term LayerNorm}}. Both treat
# each token alone. Derivatives show it: does output $i$ react to input $j$? The {{term Jacobian}} holds all these
# derivatives.


# %%
def reaction(layer, x):
    """How strongly output i depends on input j: the norm of that block of the Jacobian. (time, time)"""
    jacobian = torch.autograd.functional.jacobian(layer, x)  # (time, d, time, d)
    return jacobian.pow(2).sum(dim=(1, 3)).sqrt()


torch.manual_seed(2)
x = 0.7 * torch.randn(5, 4)
layers = {
    "linear, ReLU, linear": nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 4)),
    "LayerNorm": nn.LayerNorm(4),
    "self-attention": lambda x: reference.batched_self_attention(x[None])[0],
}
reactions = {name: reaction(layer, x) for name, layer in layers.items()}

# %% figure Which input does an output react to?
fig, axes = plt.subplots(1, 3, figsize=(9, 3))
for ax, (name, strength) in zip(axes, reactions.items()):
    show_matrix(strength, name, rows="output i", columns="input j", ax=ax)
plt.show()

# %% claims
beside = ~torch.eye(5, dtype=torch.bool)
first, second, third = reactions.values()
claim("off the diagonal there are exact zeros", first[beside].max() == 0 and second[beside].max() == 0)
claim("self-attention has none", third.min() > 0)

# %% [markdown]
# Off the diagonal there are exact zeros in the first two, and none in the third. Attention is the only operation of a
# Transformer that carries information *from one token to another*.
#
# ## 8 · Dot product or cosine?
#
# The dot product is not the only way to compare. The **cosine** divides by both lengths, so that only the angle counts:
# $\cos(a,b) = a\cdot b / (\lVert a\rVert \lVert b\rVert)$. What difference does that make?

# %%
query = torch.tensor([2.0, 1.0])
keys = torch.tensor([[2.0, 1.0], [4.0, -1.5], [-1.0, 2.0], [0.5, 0.25]])
names = ["same vector", "long, other angle", "at a right angle", "short, same angle"]
dot = keys @ query  # (4,)
cosine = nn.functional.cosine_similarity(keys, query[None], dim=1)  # (4,)
print(f"{'key':18} {'dot':>6} {'weight':>7} {'cosine':>8} {'weight':>7}")
for name, *row in zip(names, dot, dot.softmax(0), cosine, cosine.softmax(0)):
    print(f"{name:18} {row[0]:6.2f} {row[1]:7.3f} {row[2]:8.2f} {row[3]:7.3f}")

best_of_ten = torch.tensor([1.0] + 9 * [-1.0]).softmax(0)[0].item()
print(f"\n10 keys, one in the query's direction (cosine 1) and nine opposite (cosine -1): weight {best_of_ten:.2f}")

# %% figure One query, four keys, two ways to compare
fig, (plane, bars) = plt.subplots(1, 2, figsize=(9, 3), width_ratios=(1.2, 1))
arrow = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, "lw": 2}
for number, (name, key) in enumerate(zip(names, keys.tolist())):
    plane.annotate("", key, (0, 0), arrowprops={**arrow, "color": COLOURS[0]})
    offset = (-12, 5) if number == 2 else (8, -12)
    plane.annotate(f"$k_{number + 1}$ {name}", key, offset, textcoords="offset points", fontsize=8)
plane.annotate("", query.tolist(), (0, 0), arrowprops={**arrow, "color": COLOURS[1], "linestyle": "--"})
plane.annotate("query $q$", query.tolist(), (0, 8), textcoords="offset points", color=COLOURS[1], fontsize=9)
plane.set(xlim=(-2.2, 7.4), ylim=(-2.4, 2.9), title="the query and the keys", aspect="equal")
plane.set(xlabel="feature 1", ylabel="feature 2")
rows = torch.arange(4)
bars.barh(rows - 0.2, dot.softmax(0), 0.36, color=COLOURS[0], label="dot product")
bars.barh(rows + 0.2, cosine.softmax(0), 0.36, color=COLOURS[3], label="cosine")
bars.set_yticks(rows, [f"$k_{number + 1}$" for number in range(4)])
bars.invert_yaxis()
bars.set(title="weights", xlabel="softmax of the scores", xlim=(0, 1))
bars.legend()
plt.show()

# %% claims
claim("with the dot product the long key wins", dot.argmax() == 1)
claim("with the cosine both keys at the same angle tie and win", abs(cosine[0] - cosine[3]) < 1e-6 and cosine[1] < 0.9)
claim("0.45 is the most that the cosine gives one of ten keys", abs(best_of_ten - 0.45) < 0.005)

# %% [markdown]
# - With the dot product, length counts: the long key wins although it points elsewhere, and the short one is
#   nearly ignored although its angle is perfect. A model can use that, to say "this word matters to everybody".
# - The cosine stays between −1 and 1, so the softmax cannot commit to one key. Among 10 keys the largest possible
#   weight is $e/(e+9e^{-1}) = 0.45$. Models that use the cosine therefore multiply it by a learned
#   factor (Swin Transformer V2, Liu et al. 2022, is one).
#
# Transformers use the dot product: it is one matrix product, and the lengths carry information. But its size needs
# care, which brings us to the next section.
#
# ## 9 · Three roles, and a scale
#
# In $y_i = \sum_j w_{ij} x_j$ each vector is used in three ways. Take $x_2$ among four words. Before you read on: which
# of the 16 weights does it influence as a query? And as a key?

# %% figure The three roles of the second vector
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
    show_matrix(matrix, title, rows="query $i$", columns="key $j$", numbers=False, ax=ax)
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
# {{term d_k|width $d_k$}}, because they are multiplied with each other. First, a question about that width.
#
# **How large is a dot product?** Take queries and keys whose entries are independent, with mean 0 and variance 1, and
# measure: five times 4000 dot products for each width.

# %%
torch.manual_seed(1)
widths = [4, 16, 64, 256, 1024]
measured = []  # (means of the five samples, standard deviation of all)
for d_k in widths:
    products = (torch.randn(5, 4000, d_k) * torch.randn(5, 4000, d_k)).sum(dim=-1)  # (5, 4000) dot products
    measured.append((products.mean(dim=1), products.std()))
    means = " ".join(f"{mean:6.2f}" for mean in measured[-1][0])
    print(f"d_k {d_k:4}   √d_k {d_k**0.5:2.0f}   standard deviation {measured[-1][1]:5.2f}   five means {means}")

log_width = torch.tensor(widths).log2()
log_spread = torch.stack([spread for _, spread in measured]).log2()
centred = log_width - log_width.mean()
exponent = (centred * log_spread).sum() / (centred**2).sum()
print(f"fitted: the standard deviation grows as d_k to the power {exponent.item():.3f}")

# %% claims
claim("means of both signs at every width", all(means.min() < 0 < means.max() for means, _ in measured))
claim("no mean above 6 % of the standard deviation", all(means.abs().max() < 0.06 * std for means, std in measured))
claim("the standard deviation is √d_k", all(abs(std / d**0.5 - 1) < 0.03 for d, (_, std) in zip(widths, measured)))
claim("the fitted exponent is one half", abs(exponent.item() - 0.5) < 0.01)

# %% [markdown]
# The mean stays near 0: at every width some of the five means are positive and some negative, and none is more than a
# few percent of the standard deviation. It is the **spread** that grows, as $\sqrt{d_k}$: a sum of $d_k$ independent
# terms of variance 1 has variance $d_k$. So dividing by $\sqrt{d_k}$ brings the scores back to a standard deviation of
# 1, whatever the width:
#
# $$s_{ij} = \frac{q_i \cdot k_j}{\sqrt{d_k}}$$
#
# > **Spot the mistake.** "A vector with all $d$ entries equal to $c$ has length $c\sqrt{d}$; dividing by $\sqrt d$
# > removes that." The dot product of two such vectors is $d\,c^2$, so this argument would have us divide by $d$. It is
# > the variance that gives the root.
#
# {{exercise attention_scores}}


# %% exercise attention_scores
def attention_scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """How well does each query fit each key? Their dot product, divided by √d_k. No softmax yet.

    q: (..., n, d_k); k: (..., m, d_k). The dots stand for any number of leading axes: none, a batch, or more.
    Returns: (..., n, m), entry [i, j] belongs to query i and key j. The inputs stay unchanged.
    """
    ### BEGIN SOLUTION
    d_k = q.shape[-1]
    return q @ k.transpose(-2, -1) / math.sqrt(d_k)  # (..., n, m)
    ### END SOLUTION


# %% check attention_scores
check(attention_scores)

# %% [markdown]
# **What goes wrong without it.** Large scores make the softmax *saturate*: one weight is nearly 1, the others nearly 0.
# The {{term entropy}} measures how undecided the weights are. It is 0 if one key gets everything, and $\ln m$
# {{term nat|nats}} if $m$ keys get equal weights. Move the slider: what happens to the weights at scale 8, and what at
# scale 0?

# %% figure The scale of the scores, and how sharp their softmax is
from course_lib.interactive import scale_and_softmax

scale_and_softmax()

# %% [markdown]
# Where the softmax is saturated, a small change of the scores hardly changes the weights, and a network in which small
# changes have no effect gets no gradient to learn from. The derivatives of the softmax form its Jacobian
# $J = \operatorname{diag}(w) - w w^\top$. We measure its size for 10 random keys, and the entropy of the weights (at
# most $\ln 10 = 2.30$ nats).

# %%
torch.manual_seed(0)


def softmax_statistics(d_k, scale, samples=2000):
    """Mean entropy, median norm of the Jacobian, and mean and median gradient of the weights with respect to q."""
    q, k = torch.randn(samples, 1, d_k), torch.randn(samples, 10, d_k)
    w = (q @ k.mT * scale).softmax(dim=-1)[:, 0]  # (samples, 10)
    entropy = -(w * w.clamp(min=1e-30).log()).sum(dim=1)
    jacobian = torch.diag_embed(w) - w[:, :, None] * w[:, None]  # (samples, 10, 10)
    norms = jacobian.flatten(1).norm(dim=1)
    through_q = (jacobian @ k * scale).flatten(1).norm(dim=1)
    return entropy.mean().item(), norms.median().item(), through_q.mean().item(), through_q.median().item()


widths = [4, 8, 16, 32, 64, 128, 256, 512]
raw = [softmax_statistics(d_k, 1.0) for d_k in widths]
scaled = [softmax_statistics(d_k, d_k**-0.5) for d_k in widths]
print(f"d_k = 512, median norm of J: {raw[-1][1]:.4f} raw, {scaled[-1][1]:.3f} scaled")

# %% figure Entropy and Jacobian, with and without the scale
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

# %% claims
scaled_entropies, scaled_norms = ([s[which] for s in scaled] for which in (0, 1))
claim("with the scale the entropy is flat", max(scaled_entropies) - min(scaled_entropies) < 0.15)
claim("with the scale the Jacobian is flat", max(scaled_norms) / min(scaled_norms) < 1.4)
claim("without it the entropy falls", raw[-1][0] < 0.3 * raw[0][0])
claim("without it the typical derivative falls at least tenfold", raw[-1][1] < 0.1 * scaled[-1][1])
claim("the mean gradient is larger without the scale", raw[-1][2] > 1.2 * scaled[-1][2])
claim("the typical sample has almost no gradient", raw[-1][3] < 0.05 * scaled[-1][3])

# %% [markdown]
# With the scale both curves are flat. Without it the weights become harder as the vectors get wider, and the typical
# derivative all but vanishes.
#
# Two common explanations do not fit these numbers. The scale is said to keep gradients from *exploding*; in fact it
# keeps them from *vanishing*. And it is said to be a kind of regularisation; in fact it controls a variance. It is easy
# to measure the wrong thing, though:

# %%
print("gradient of the weights with respect to q, d_k = 512      mean     median")
print(f"  raw                                                {raw[-1][2]:9.3f}  {raw[-1][3]:9.4f}")
print(f"  scaled                                             {scaled[-1][2]:9.3f}  {scaled[-1][3]:9.4f}")

# %% [markdown]
# The *mean* gradient is larger without the scale. In a few samples two keys are nearly tied; there a hard softmax jumps
# from one to the other, and these few dominate the mean. The *median*, the typical sample, has almost no gradient.
#
# **Divide by 8.** Alammar's *Illustrated Transformer* (2018) has two words, $d_k = 64$, and the dot products 112 and
# 96. The square root of 64 is 8:

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
# This is *scaled dot-product attention*; the name is the recipe. (Elsewhere you may see one letter $A$ for the numbers
# before the softmax and for those after it. Here the former are *scores* and the latter *weights*.)

# %% figure Scaled dot-product attention, box by box
fig, ax = plt.subplots(figsize=(5.6, 5.4))
steps = {
    "matrix product": (1.7, 1), "divide by $\\sqrt{d_k}$": (1.7, 2), "mask: notebook 2": (1.7, 3),
    "softmax of each row": (1.7, 4), "matrix product ": (3.1, 5),
}  # fmt: skip
for label, (x, y) in steps.items():
    optional = label.startswith("mask")
    ax.text(x, y, label, ha="center", va="center", fontsize=10, bbox={
        "boxstyle": "round,pad=0.35", "facecolor": "white" if optional else PARTS["attention"],
        "edgecolor": PARTS["mask"], "linestyle": "--" if optional else "-"})  # fmt: skip
for label, (x, y) in {"$Q$": (0.8, 0), "$K$": (2.6, 0), "$V$": (4.4, 0), "output": (3.1, 6)}.items():
    ax.text(x, y, label, ha="center", va="center", fontsize=11)
arrows = [((0.8, 0), (1.35, 1), "$(n, d_k)$", -0.8), ((2.6, 0), (2.05, 1), "$(m, d_k)$", 0.15),
          ((1.7, 1), (1.7, 2), "$(n, m)$", 0.1), ((1.7, 2), (1.7, 3), "scores $(n, m)$", 0.1),
          ((1.7, 3), (1.7, 4), "$(n, m)$", 0.1), ((1.7, 4), (2.8, 5), "weights $(n, m)$", -1.45),
          ((4.4, 0), (3.5, 5), "$(m, d_v)$", 0.15), ((3.1, 5), (3.1, 6), "$(n, d_v)$", 0.1)]  # fmt: skip
for (x0, y0), (x1, y1), shape, shift in arrows:
    ax.annotate("", (x1, y1 - 0.24), (x0, y0 + 0.24), arrowprops={"arrowstyle": "->", "color": "0.3"})
    ax.text((x0 + x1) / 2 + shift, (y0 + y1) / 2, shape, fontsize=8, va="center", color="0.25")
ax.set(xlim=(-0.3, 5.2), ylim=(-0.4, 6.4), title="Scaled dot-product attention: n queries, m keys and values")
ax.axis("off")
plt.show()

# %% [markdown]
# The dashed box is optional. A {{term mask}} hides some keys from some queries; notebook 2 fills it in.
#
# **By hand, once.** Three queries, four keys, everything of width 2. To keep the numbers round we write the queries
# in units of $u = \sqrt2 \ln 2$: then the scaled scores are whole multiples of $\ln 2$, and $e^{\text{score}}$ is a
# power of 2.
#
# $$Q = u\begin{pmatrix}1&0\\0&1\\1&1\end{pmatrix}\quad
#   K = \begin{pmatrix}1&0\\0&2\\2&0\\0&1\end{pmatrix}\quad
#   V = \begin{pmatrix}24&0\\0&24\\12&12\\0&0\end{pmatrix}$$
#
# The first query $(1, 0)$ has the dot products $1, 0, 2, 0$ with the four keys, in units of $\ln 2$ after the division
# by $\sqrt 2$. Exponentials: $2, 1, 4, 1$, with sum 8. Weights: $\tfrac28, \tfrac18, \tfrac48, \tfrac18$. Output:
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

# %% figure Scores, weights and output of the worked example
fig, axes = plt.subplots(1, 3, figsize=(9, 2.6), width_ratios=[4, 4, 2.4])
show_matrix(scores / math.log(2), "scores, in units of ln 2", ax=axes[0])
show_matrix(weights, "weights (0.12 is one eighth)", limits=(0, 1), ax=axes[1])
show_matrix(output, "output", columns="feature", ax=axes[2])
plt.show()

# %% claims
claim("the first output is (12, 9)", torch.allclose(output[0], torch.tensor([12.0, 9.0]), atol=1e-4))
claim(
    "the first weights are 2, 1, 4 and 1 eighths",
    torch.allclose(8 * weights[0], torch.tensor([2.0, 1, 4, 1]), atol=1e-4),
)

# %% [markdown]
# Now write it, for any number of leading axes. Return the output *and* the weights, in this order: we will want to look
# at the weights.
#
# {{exercise scaled_dot_product_attention}}


# %% exercise scaled_dot_product_attention
def scaled_dot_product_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V, and the weights it was made with.

    q: (..., n, d_k); k: (..., m, d_k); v: (..., m, d_v). Any number of leading axes.
    Returns: output (..., n, d_v), weights (..., n, m). Gradients must flow back to q, k and v, so use torch
    operations only (no .item(), .numpy() or .detach()). The inputs stay unchanged. A score may be 1000 or -1000, and
    nothing may overflow.
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
# The matrix form says the same as six small steps for each word. Here they are for the first word of *Thinking
# Machines* (again Alammar's example, $d_k = 64$): (1) take its query, (2) multiply it with every key, (3) divide by 8,
# (4) softmax, (5) multiply every value by its weight, (6) add up. The last step is a weighted *sum* of vectors, not
# another dot product. From here on the demonstrations use *your* attention, once it passes its check.

# %%
attend = yours("scaled_dot_product_attention", scaled_dot_product_attention)

torch.manual_seed(3)
q, k, v = torch.randn(3, 2, 64)  # three matrices with a row for "Thinking" and a row for "Machines"

query = q[0]  # 1
score = [query @ k[0], query @ k[1]]  # 2
score = [s / 8 for s in score]  # 3
total = math.exp(score[0]) + math.exp(score[1])
weight = [math.exp(s) / total for s in score]  # 4
weighted = [weight[0] * v[0], weight[1] * v[1]]  # 5
z = weighted[0] + weighted[1]  # 6

output, _ = attend(q, k, v)
print("weights of Thinking:", [round(w, 3) for w in weight])
print(f"largest difference from the matrix form: {(z - output[0]).abs().max().item():.0e}")

# %% claims
claim("the six steps are the matrix form", torch.allclose(z, output[0], atol=1e-5))

# %% [markdown]
# ## 11 · Three matrices give each role its own vector
#
# So far a word had one vector for three jobs. That is a poor fit: *it* should look for nouns, and be found as a
# pronoun. Three learned matrices give every $x_i$ a query, a key and a value ({{term projection|projections}}):
#
# $$q_i = x_i W^Q \qquad k_i = x_i W^K \qquad v_i = x_i W^V$$
#
# The matrices are what attention learns. They may change the width: in the paper a vector of {{term d_model}} =
# 512 features becomes queries, keys and values of 64. That is the designers' choice; all that must hold is that
# queries and keys are equally wide. And every vector is projected **once**: if you see $Q = XW^Q$ in one line and
# $QW^Q$ in the next, the second $Q$ stands for the plain input.
#
# {{exercise project_qkv}}
#
# Three products will do. When they pass, try it with a single one, as fast libraries do: put the three matrices side by
# side, multiply once, and take the result apart again. Mind that the values may have another width. The check accepts
# either version.


# %% exercise project_qkv
def project_qkv(
    x: torch.Tensor, w_q: torch.Tensor, w_k: torch.Tensor, w_v: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Three views of the same vectors: queries, keys and values.

    x: (..., time, d_in), one row per token; w_q: (d_in, d_k); w_k: (d_in, d_k); w_v: (d_in, d_v).
    Returns: q (..., time, d_k), k (..., time, d_k), v (..., time, d_v).
    """
    ### BEGIN SOLUTION
    return x @ w_q, x @ w_k, x @ w_v
    ### END SOLUTION


# %% check project_qkv
check(project_qkv)

# %% [markdown]
# <details><summary>The version with a single product</summary>
#
# ```python
# together = torch.cat([w_q, w_k, w_v], dim=1)  # (d_in, 2 d_k + d_v)
# widths = [w.shape[1] for w in (w_q, w_k, w_v)]
# return (x @ together).split(widths, dim=-1)
# ```
#
# It gives the same numbers: each column of a product depends on one column of the right-hand matrix. torch's own
# attention layer keeps its three matrices together in this way (`in_proj_weight`, notebook 4).
#
# </details>

# %% [markdown]
# **Does a word look mostly at itself?** That is often said. Without projections it almost has to:
# $x_i\cdot x_i = \lVert x_i\rVert^2$ is large. With matrices it is up to them, and random ones favour nobody:

# %%
torch.manual_seed(0)
own_without, own_with = 0.0, 0.0  # sums of shares
for _ in range(300):
    x = torch.randn(10, 64)
    w_q, w_k, w_v = torch.randn(3, 64, 32) / 8
    q, k, _ = reference.project_qkv(x, w_q, w_k, w_v)
    own_without += (reference.attention_scores(x, x).argmax(dim=1) == torch.arange(10)).float().mean().item()
    own_with += (reference.attention_scores(q, k).argmax(dim=1) == torch.arange(10)).float().mean().item()
print("rows in which the token itself has the highest score (by chance: 10 %)")
print(f"  without projections     {own_without / 300:6.1%}")
print(f"  with random projections {own_with / 300:6.1%}")

# %% claims
claim("without projections a token nearly always prefers itself", own_without / 300 > 0.99)
claim("with random ones it does so about as often as by chance", 0.06 < own_with / 300 < 0.15)

# %% [markdown]
# **Who is tired?** *The animal did not cross the street because it was too tired.* Does *it* mean the animal or the
# street? Replace *tired* with *wide* and the answer changes. We can build a tiny solver by hand, in two rounds of
# attention. Every word has six features. In round 1 the pronoun looks for the adjective and takes over what it says.
# In round 2 it looks for a noun that fits. Nothing here is trained; the point is that matrices *can* do it.

# %%
NOUN, LIVING, PLACE, OF_LIVING, OF_PLACE, PRONOUN = range(6)
lexicon = {"animal": [NOUN, LIVING], "street": [NOUN, PLACE], "it": [PRONOUN],
           "tired": [OF_LIVING], "wide": [OF_PLACE]}  # fmt: skip


def matrix_of(*entries):
    """A (6, 6) matrix with a few entries: (from feature, to feature, strength)."""
    matrix = torch.zeros(6, 6)
    for source, target, strength in entries:
        matrix[source, target] = strength
    return matrix


rounds = [  # w_q: what a feature asks for; w_k: what a feature offers; w_v: what it hands over
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


def read(words, rounds):
    """The weights of each round, (time, time)."""
    x = torch.zeros(len(words), 6)
    for position, word in enumerate(words):
        x[position, lexicon.get(word, [])] = 1.0
    weights_of_rounds = []
    for w_q, w_k, w_v in rounds:
        output, weights = attend(*reference.project_qkv(x, w_q, w_k, w_v))
        x = x + output  # what was found is added to what was there
        weights_of_rounds.append(weights)
    return weights_of_rounds


sentences = [f"the animal did not cross the street because it was too {word}".split() for word in ("tired", "wide")]
for name, chosen in {"both rounds": rounds, "round 2 alone": rounds[1:]}.items():
    for words in sentences:
        weights = read(words, chosen)[-1][words.index("it")]
        shares = ", ".join(f"{noun} {weights[words.index(noun)].item():.2f}" for noun in ("animal", "street"))
        print(f"{name:13}   … it was too {words[-1]:5}   {shares}")

# %% figure Where "it" looks in two rounds
fig, axes = plt.subplots(2, 1, figsize=(9, 3.8))
for ax, words in zip(axes, sentences):
    first, second = read(words, rounds)
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

# %% claims
for words, noun in zip(sentences, ("animal", "street")):
    claim(f"it is the {noun}", read(words, rounds)[1][words.index("it"), words.index(noun)] > 0.8)
    claim("round 2 alone cannot decide", read(words, rounds[1:])[0][words.index("it")].max() < 0.1)

# %% [markdown]
# Round 2 alone cannot decide, as the last two lines show: *it* has to receive *tired* before it can ask for something
# alive. That is one reason to stack layers.
#
# **A warning about such pictures.** Weights show where values were *taken from*. They do not prove that it mattered. If
# all value rows are equal, any weights give the same output:

# %%
torch.manual_seed(0)
same_values = torch.tensor([[3.0, -1.0]]).expand(4, 2)
for _ in range(2):
    output, weights = attend(3 * torch.randn(1, 2), torch.randn(4, 2), same_values)
    print("weights", [round(w, 2) for w in weights[0].tolist()], "  output", [round(o, 4) for o in output[0].tolist()])

# %% claims
claim("any weights give the same output", torch.allclose(output[0], same_values[0], atol=1e-5) and weights.max() < 0.99)

# %% [markdown]
# Treat a heat map as a question to ask about the model, not as its answer. How much attention explains is disputed:
# Jain and Wallace (2019) and Wiegreffe and Pinter (2019) argue the two sides.
#
# ## 12 · Self and cross
#
# Nothing in the formula says where queries, keys and values come from. If all three are made from one sequence, it is
# **self-attention**. If the queries come from one sequence and the keys and values from another, it is
# **{{term cross-attention}}**. The computation is the same, but the weights need no longer be square. A speech
# recogniser can ask with text (queries) what it needs from the sound (keys and values):

# %%
torch.manual_seed(0)
text, audio = torch.randn(2, 5, 16), torch.randn(2, 80, 24)  # 5 characters of 16 features, 80 frames of 24
w_q, w_k, w_v = torch.randn(16, 8), torch.randn(24, 8), torch.randn(24, 12)
output, weights = attend(text @ w_q, audio @ w_k, audio @ w_v)
print("output ", tuple(output.shape), " one vector for each character")
print("weights", tuple(weights.shape), "one row for each character, over all frames")

# %% [markdown]
# **Soft {{term alignment}}.** In translation, cross-attention can find which source word a target word comes from.
# *Good morning!* is *zǎoshang hǎo!* in Chinese: *zǎoshang* is the morning, *hǎo* is good. The order is reversed. With
# vectors in which both languages share their meaning (here three features, set by hand), attention finds the pairs by
# itself.

# %%
meaning = {"Good": [2.4, 0.5, 0.0], "morning": [0.4, 2.6, 0.0], "!": [0.0, 0.1, 2.7],
           "zǎoshang": [0.5, 2.2, 0.1], "hǎo": [2.3, 0.3, 0.0]}  # fmt: skip
target, source = ["Good", "morning", "!"], ["zǎoshang", "hǎo", "!"]
q = torch.tensor([meaning[word] for word in target])
k = torch.tensor([meaning[word] for word in source])
_, weights = attend(q, k, k)

# %% figure Which source word does a target word look at?
fig, ax = plt.subplots(figsize=(5, 3.4))
show_matrix(
    weights,
    "which source word does a target word look at?",
    rows="target (query)",
    columns="source (key)",
    row_names=target,
    column_names=source,
    limits=(0, 1),
    ax=ax,
)
plt.show()

# %% claims
claim("good is hǎo, morning is zǎoshang", weights.argmax(dim=1).tolist() == [1, 0, 2])

# %% [markdown]
# ## 13 · What it costs
#
# Attention compares everything with everything: $n$ tokens have $n^2$ scores. But a layer has other work to do as well.
# Count the multiplications of two numbers in the matrix products. A product of an $(a, b)$ matrix and a $(b, c)$ matrix
# takes $a\,b\,c$. For $n$ tokens, one attention layer, and the same width $d = d_k = d_v$ throughout:
#
# - **projections**: queries, keys and values, and a fourth matrix of the same size that is applied to the output
#   (notebook 4 adds it). Each is $(n, d) \cdot (d, d)$.
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

# %% figure Multiplications in one attention layer
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

# %% claims
few, equal = reference.attention_cost(10, 512), reference.attention_cost(1024, 512)
claim("at 10 tokens the projections cost 102 times as much", round(few[0] / few[1]) == 102)
claim("both are equal at n = 2d", equal[0] == equal[1])

# %% [markdown]
# "Attention is quadratic" is true, and beside the point for short texts: at 10 tokens the projections cost 102 times as
# much. The two are equal at $n = 2d$; beyond that the square takes over.
#
# {{question why_the_equals_the}}
#
# In *the cat is on the mat* both words *the* got exactly the same row of weights (section 5), and so they get the same
# output. Explain in two or three sentences why this must be so, whether learned matrices $W^Q, W^K, W^V$ would change
# it, and what would have to be added to the input to make the two outputs differ.

# %% answer why_the_equals_the 2 [markdown]
# ### BEGIN SOLUTION
# The weights and the output are computed from the content of the vectors alone, and both words have the same vector:
# same query, same keys, same values, hence the same result. Learned matrices do not change that, because equal
# vectors are multiplied by the same matrices and stay equal (attention is permutation equivariant with them, too).
# Something that depends on the position has to be added to the vectors, so that the first and the fifth word are no
# longer equal.
#
# **Rubric**
#
# - 1 point: same vector, hence same query, key and value, hence same output, and learned matrices do not change that;
#   half a point if the matrices are left out
# - 1 point: something that depends on the position has to be added to the input
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
# ## Further reading
#
# - Vaswani et al. (2017), *Attention Is All You Need*, section 3.2: one page, and you can now read every symbol of it.
# - Alammar (2018), *The Illustrated Transformer*: the same in pictures, with *Thinking Machines* and the animal that
#   was too tired (an example from Google's blog post of 2017).
# - Bahdanau, Cho and Bengio (2015), *Neural Machine Translation by Jointly Learning to Align and Translate*: soft
#   alignment, before the Transformer.
# - Koren, Bell and Volinsky (2009), *Matrix Factorization Techniques for Recommender Systems*: the film map.
# - Liu et al. (2022), *Swin Transformer V2*: attention with a scaled cosine.
# - Simonyan, Vedaldi and Zisserman (2014), *Deep Inside Convolutional Networks*: gradient saliency.
# - Jain and Wallace (2019), *Attention is not Explanation*; Wiegreffe and Pinter (2019), *Attention is not not
#   Explanation*.
