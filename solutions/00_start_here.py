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
# # 0 · Start here
#
# In this course you build a Transformer yourself, piece by piece, and every piece is checked the moment you run it.
# This notebook shows where the course leads and how the checks work. You also write four small tools that everything
# later relies on: a softmax, a broadcast, a batched matrix product and a padded batch. You need Python; some experience
# with PyTorch helps.

# %% setup
import math
import time

import matplotlib.pyplot as plt
import torch
from matplotlib.patches import FancyBboxPatch
from torch import Tensor, nn

from course_lib import check, exercises, hint, progress, solution
from course_lib import start_here as reference
from course_lib.plotting import COLOURS, PARTS, show_map, show_matrix, use_course_style
from course_lib.settings import course_device

use_course_style()
device = course_device()

# %% [markdown]
# ## Where this leads
#
# Here is the Transformer of this course at work. It was trained on one CPU thread, in about the time it takes to make a
# cup of tea, and by the end of notebook 9 you will have written every part of it. Run the cell, then change the
# sentence: the model knows some three hundred English words, and the cell lists a few of them.

# %%
from course_lib.translation import english_vocabulary, load_translator, translate

translator = load_translator().to(device)
sentence = "the cat is on the mat"
print(f"{sentence}  →  {translate(translator, [sentence])[0]}")
print("some words to try:", ", ".join(english_vocabulary().words[20:300:27]))

# %% claims
claim(
    "the running example is translated",
    translate(translator, ["the cat is on the mat"]) == ["le chat est sur le tapis"],
)
claim("it knows some three hundred words", 280 < len(english_vocabulary()) < 330)

# %% [markdown]
# And this is what happened inside. Each line below is a {{term attention weights|weight}}: how much one word looked at
# another. Point at *le → chat* on the left: the model has just written *le* and is about to write *chat*, and you see
# which English words it looks at. The model does so several times: in two layers, one after the other, and in each of
# them four times at once, by four {{term head|heads}} that may look at different words. At first you see the last layer
# and the mean of its heads; choose others above the picture. Notebooks 4 and 6 explain both. For now it is enough to
# see that the model *looks*, and that we can watch it.

# %% figure Where the translator looks
from course_lib.interactive import attention_explorer, translation_attention

attention_explorer(translation_attention(translator, sentence))

# %% claims
shapes = {tuple(each.weights.shape[:2]) for each in translation_attention(translator, sentence)}
claim("two layers with four heads each", shapes == {(2, 4)})

# %% [markdown]
# ## What you are going to build
#
# Many tasks have this form: **a {{term sequence}} goes in, a sequence comes out.** A sentence in one language, and the
# same sentence in another. The sound of a voice, and the words that were said. A video of signing hands or of moving
# lips, and a sentence.
#
# Such a model often has two parts. The **{{term encoder}}** reads the input and turns every step of it into a vector
# that says what this step means here. The **{{term decoder}}** writes the output, one step after the other, and looks
# at what the encoder has made. This plan is older than the Transformer and not tied to it: Sutskever et al. (2014) used
# {{term recurrent network|recurrent networks}}. The two parts are independent modules. A decoder can be trained on top
# of an encoder that somebody else has trained, a recurrent or convolutional encoder can feed a Transformer decoder, and
# each part can be used alone.

# %% figure Encoder and decoder as two boxes
figure, ax = plt.subplots(figsize=(9, 2.7))


def box(x, width, text, colour):
    ax.add_patch(FancyBboxPatch((x, 0.9), width, 1.1, boxstyle="round,pad=0.06", facecolor=colour, alpha=0.3))
    ax.text(x + width / 2, 1.45, text, ha="center", va="center")


def arrow(start, end, text=""):
    ax.annotate("", xy=(end, 1.45), xytext=(start, 1.45), arrowprops={"arrowstyle": "->", "lw": 1.6})
    ax.text((start + end) / 2, 1.6, text, ha="center", va="bottom", fontsize=9)


box(2.2, 1.7, "encoder\nreads", PARTS["encoder"])
box(6.4, 1.7, "decoder\nwrites", PARTS["decoder"])
ax.text(0.75, 1.45, "the cat is\non the mat", ha="center", va="center")
ax.text(9.7, 1.45, "le chat est\nsur le tapis", ha="center", va="center")
arrow(1.6, 2.1)
arrow(4.05, 6.25, "one vector\nfor each input word")
arrow(8.25, 8.9)
ax.annotate("", xy=(7.25, 0.8), xytext=(9.7, 1.0), arrowprops={"arrowstyle": "->", "connectionstyle": "arc3,rad=-0.5"})
ax.text(8.9, -0.05, "what has been written so far is read again", ha="center", fontsize=9)
ax.set(xlim=(-0.4, 10.8), ylim=(-0.2, 2.5), title="Sequence to sequence: the model as two boxes")
ax.axis("off")
plt.show()

# %% [markdown]
# What is in the boxes? At first they held recurrent networks, which read one word after the other and squeezed the
# whole input into a single *context vector* between the boxes: too narrow for a long sentence. Then
# *{{term attention}}* let the decoder look back at every input position, so that nothing had to pass through one
# vector (Bahdanau et al. 2015). In 2017 Vaswani et al. removed the recurrence and kept the attention: that is
# the Transformer. It translated better than the recurrent systems of its day, Google's GNMT among them, and it trained
# faster, because it works on all positions at once, which is what graphics cards and Google's TPUs are good at. The
# paper is called "Attention is all you need", and hundreds of papers have since told us what else is all we need.
#
# A useful definition: **a Transformer is a network on a set of units (words, image patches, sounds) in which
# attention is the only way for one unit to influence another.** Everything else in it works on each unit by itself.
# On its own it maps a set to a set. Order or neighbourhood is added from outside, by position vectors or by hiding some
# pairs from each other. That is why the same design serves text (GPT-4, LLaMA, Claude, ERNIE), images (ViT: an image
# as a sequence of patches; MAE: guess the hidden patches), captioned images and knowledge graphs.
#
# ## The map of the course
#
# Each notebook is a place on this picture of the Transformer. The same picture opens every later notebook, with its
# place marked.

# %% figure The Transformer as a map of the course
show_map()

# %% [markdown]
# {{map}}
#
# The minutes are an estimate for somebody to whom all of it is new. Notebooks 5 and 8 also have an open-ended exercise,
# which takes as long as you like and is not counted.
#
# The usual road to this point is long: convolutional networks, recurrent networks, LSTM and GRU, encoder and decoder,
# attention, {{term self-attention}}, Transformer. This course takes a shorter one. It starts from the
# {{term dot product}}, and you need none of the other stops. Later notebooks use the course's own versions of earlier
# pieces, so an exercise that you leave out never blocks you. Technical terms link to the [glossary](glossary.ipynb)
# where they first appear.
#
# | where | what |
# |---|---|
# | `work/` | your own copies of the notebooks: your answers and your progress stay here and survive updates |
# | `notebooks/` | the same notebooks, blank |
# | `course_lib/masks.py` and its neighbours | the course's own solutions, one file per notebook, to be read |
# | `check`, `hint`, `solution`, `progress`, `exercises` | the five functions you call in a notebook |
#
# `make lab` makes `work/` and opens it. In Colab there is no such folder, and what lies in `/content` is lost with the
# runtime: save a copy of each notebook to your Drive. If you also mount the Drive (the folder symbol on the left, or
# `from google.colab import drive; drive.mount("/content/drive")`), your progress is kept there too.
# Everything here runs on a CPU. The set-up cell uses a GPU if there is one; in Colab you get one with
# *Runtime → Change runtime type → T4 GPU*. It makes a difference only from notebook 8 on.

# %% [markdown]
# ## Shapes: (batch, time, feature)
#
# Nearly every {{term tensor}} in this course has these three axes, in this order:
#
# - **{{term batch}}**: which example? Sentences are processed side by side, for speed. They never influence each other.
# - **time**: which step of the sequence? Word 0, word 1, …
# - **{{term feature}}**: which entry of the vector that describes this step?
#
# Sound, for example, is cut into short frames, and each frame is described by numbers: usually the energies in some 80
# frequency bands (a *filter bank*), sometimes a summary of them (MFCCs) or the samples of the waveform themselves. With
# 100 frames a second and 80 numbers per frame, a recording of 4 seconds is a matrix of 400 × 80.

# %%
x = torch.zeros(16, 400, 80)
batch, time_steps, features = x.shape
print(f"{batch} recordings, {time_steps} frames each, {features} numbers per frame: {x.numel():,} numbers")
print("one recording        x[3]         ", tuple(x[3].shape))
print("one frame            x[3, 17]     ", tuple(x[3, 17].shape))
print("first 50 frames      x[:, :50]    ", tuple(x[:, :50].shape))
print("feature 7 everywhere x[:, :, 7]   ", tuple(x[:, :, 7].shape))

# %% [markdown]
# Operations such as a sum or a maximum need to know **along which axis** they run. That axis then disappears, unless
# `keepdim=True` keeps it with length 1. Negative numbers count from the end: `dim=-1` is the last axis.

# %%
small = torch.tensor([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]])  # (2, 3)
print("sum(dim=0)              ", small.sum(dim=0).tolist(), "  down the columns")
print("sum(dim=1)              ", small.sum(dim=1).tolist(), "        along the rows")
print("sum(dim=1, keepdim=True)", small.sum(dim=1, keepdim=True).tolist(), "    the same, as a column")
print("sum(dim=-1)             ", small.sum(dim=-1).tolist(), "        the last axis, which is axis 1 here")

# %% [markdown]
# **Spot the mistake.** Each of these sentences comes from a published explanation. What is wrong?
#
# 1. "The batch size is the number of examples that the model sees in one epoch."
# 2. "All sentences are brought to one maximum length, the batch size."
# 3. "The {{term embedding}} table has one row for each position of the sentence."
#
# <details><summary>Answers</summary>
#
# 1. It is the number of examples in one *step*. An {{term epoch}} goes once through all the data, so it has many steps
#    (next cell).
# 2. That is the length of the time axis, `max_len`. The batch size counts sentences.
# 3. It has one row for each word of the *{{term vocabulary}}*: `vocab_size` rows of {{term d_model|`d_model`}} numbers
#    each. A table with 6 rows has no word 123 (next cell).
#
# </details>

# %%
examples, batch_size = 1000, 16
print(f"{examples} examples in batches of {batch_size}: {math.ceil(examples / batch_size)} steps in an epoch")

table = nn.Embedding(6, 8)  # 6 words, 8 numbers each
print("words 0, 5, 5, 2 of the vocabulary:", tuple(table(torch.tensor([0, 5, 5, 2])).shape))
try:
    table(torch.tensor([123]))
except IndexError as error:
    print("word 123:", type(error).__name__, "-", error)

# %% [markdown]
# ## How a check answers
#
# Your first exercise will be the **{{term softmax}}**. It turns any numbers into shares: positive, and adding up to 1.
#
# $$\operatorname{softmax}(x)_i = \frac{e^{x_i}}{\sum_j e^{x_j}}$$
#
# For $x = (0, \ln 3)$ the exponentials are 1 and 3, their sum is 4, and so the shares are $\frac14$ and $\frac34$.
# Attention will use it to decide how much to look at each word.
#
# Before you write it, see what `check` says about five answers that other people might give. `check("softmax", f)`
# calls the function `f` on small inputs and never looks at how it is written. (`practice=True` keeps these five out of
# *your* progress. You do not need it.)
#
# **1. Not attempted.** Every exercise begins as a stub like this one.


# %%
def untouched(x, dim):
    raise NotImplementedError()


check("softmax", untouched, practice=True)

# %% [markdown]
# **2. Raised.** The code stopped with an error. The report shows the line, and the input on which it happened. Read the
# last line of the error first. Very often a name is misspelt, and Python says which.


# %%
def with_a_typo(x, dim):
    exponentials = x.expp()
    return exponentials / exponentials.sum(dim, keepdim=True)


check("softmax", with_a_typo, practice=True)

# %% [markdown]
# **3. Wrong, and known.** The answer behaves exactly like a mistake that many people make. Then the mistake is named,
# in bold. The checks run from coarse to fine and stop at the first that fails. Whatever passed before that counts: this
# answer has already earned a point.


# %%
def of_the_rows(x, dim):
    return torch.softmax(x, dim=-1)


check("softmax", of_the_rows, practice=True)

# %% [markdown]
# **4. Wrong, and new.** Nobody has listed this mistake yet. You still learn which property failed, on which
# input, and what was expected. For small matrices you see both and their difference.


# %%
def of_absolute_values(x, dim):
    return torch.softmax(x.abs(), dim)


check("softmax", of_absolute_values, practice=True)

# %% [markdown]
# **5. Right.** How it is written does not matter: a loop, one line, or torch's own function.

# %%
check("softmax", torch.softmax, practice=True)

# %% claims
answers = (untouched, with_a_typo, of_the_rows, of_absolute_values, torch.softmax)
reports = [check("softmax", answer, practice=True) for answer in answers]
outcomes = [report.outcome for report in reports]
claim("the four outcomes", outcomes == ["not attempted", "raised", "wrong", "wrong", "right"])
claim("the third mistake is known, the fourth is not", reports[2].misconception and not reports[3].misconception)
claim("the third answer has already earned a point", reports[2].points == 1)

# %% [markdown]
# So there are four outcomes: *not attempted*, *raised*, *wrong* (with the mistake named if it is known), *right*.
# You can check as often as you like; `progress()` remembers your best result.
#
# | you type | you get |
# |---|---|
# | `check(softmax)` | the report on your function |
# | `hint("softmax")` | the next hint, from a nudge to nearly the code |
# | `solution("softmax")` | the course's own solution, once you have tried it yourself |
# | `progress()` | your points so far, kept in a small file beside the notebooks |
# | `exercises()` | all exercises of the course with points, minutes and difficulty |
#
# If your instructor collects the notebooks: in the cell under each check the grader runs further inputs that are not
# shown here. They ask for the same properties, so an answer that is right in general has nothing to fear. In
# JupyterLab with nbgrader, the button *Validate* runs the notebook from top to bottom in a fresh kernel and lists
# the check cells that do not give full points, and the written answers that are still empty. It does not run the
# hidden inputs, and it submits nothing.

# %% [markdown]
# ## The softmax
#
# First the simple version: one row, written as the formula says.

# %%
row = torch.tensor([0.0, math.log(3.0)])
print("shares of (0, ln 3):", row.exp() / row.exp().sum())

# %% [markdown]
# It has a weakness. In single precision, $e^{89}$ is already too large to be stored:

# %%
for value in (10.0, 88.0, 89.0, 1000.0):
    big = torch.tensor([0.0, value])
    exponentials = big.exp()
    shares = exponentials / exponentials.sum()
    print(f"x = (0, {value:4g})    exp(x) = (1, {exponentials[1]:8.3g})    shares = ({shares[0]:.3g}, {shares[1]:.5g})")

# %% claims
claim("e^88 can be stored and e^89 cannot", torch.tensor(88.0).exp().isfinite() and torch.tensor(89.0).exp().isinf())

# %% [markdown]
# `inf / inf` is not a number. The remedy: adding the same number $c$ to all $x_i$ multiplies numerator and denominator
# by $e^c$, and the shares stay the same. So we are free to choose $c$, and one choice makes every exponent 0 or
# negative:
#
# $$\operatorname{softmax}(x)_i = \frac{e^{x_i - x_\text{max}}}{\sum_j e^{x_j - x_\text{max}}}
# \qquad\text{with}\quad x_\text{max} = \max_j x_j$$
#
# {{exercise softmax}}
#
# Now write it for a tensor of any shape, along the axis `dim`. Each slice along `dim` is a softmax of its own, with its
# own maximum and its own sum. No loop is needed.


# %% exercise softmax
def softmax(x: Tensor, dim: int) -> Tensor:
    """Turn the numbers along `dim` into shares: positive, and 1 in total.

    x: floating point, any shape, numbers between -10 000 and 10 000. dim: an axis of x, may be negative.
    Returns: a tensor of the shape of x. It is made by torch operations, so that gradients flow back to x,
    and x itself is left as it is.
    """
    ### BEGIN SOLUTION
    largest = x.amax(dim=dim, keepdim=True)  # as x, with length 1 along dim
    exponentials = torch.exp(x - largest)
    return exponentials / exponentials.sum(dim=dim, keepdim=True)
    ### END SOLUTION


# %% check softmax
check(softmax)

# %% [markdown]
# Stuck? Unfold the next hint in the report, or run `hint("softmax")` in a new cell.
#
# This is what it does to the same numbers along either axis (drawn with the course's own version, `reference.softmax`):

# %% figure The same numbers, with a softmax along either axis
x = torch.tensor([[0.0, 1.0, 2.0, 3.0], [0.0, 0.0, 0.0, 0.0], [3.0, -1.0, 1.0, -2.0]])
figure, axes = plt.subplots(1, 3, figsize=(9, 2.7))
show_matrix(x, "x\n", rows="axis 0", columns="axis 1", diverging=True, ax=axes[0])
for dim, ax in zip((0, 1), axes[1:]):
    title = f"softmax(x, dim={dim})\neach {'column' if dim == 0 else 'row'} adds up to 1"
    show_matrix(reference.softmax(x, dim), title, rows="axis 0", columns="axis 1", limits=(0, 1), ax=ax)
plt.show()

# %% claims
claim("equal numbers get equal shares in their row", torch.equal(reference.softmax(x, 1)[1], torch.full((4,), 0.25)))
claim("but not in their columns", len(reference.softmax(x, 0)[1].unique()) > 1)

# %% [markdown]
# Notice the middle row: equal numbers get equal shares when they compete with each other (right), but not when each
# competes with the others of its column (middle). The axis decides who competes.

# %% [markdown]
# ## Broadcasting
#
# What happens in `x - largest` if the two have different shapes? Torch aligns the shapes **from the right**
# ({{term broadcasting}}). Two lengths fit if they are equal, or if one of them is 1 or missing. That one is then
# repeated as often as needed, without being copied.
#
# ```
# positions    (6, 1)
# frequencies     (4)      is read as (1, 4)
# product      (6, 4)      every position times every frequency
# ```
#
# `unsqueeze(i)` inserts an axis of length 1 at place `i`. That is how you choose the axis along which a tensor is
# repeated. This very table comes back in the notebook on positions.

# %%
positions = torch.arange(6.0)  # (6,)
frequencies = torch.tensor([1.0, 0.5, 0.2, 0.1])  # (4,)

looped = torch.zeros(6, 4)
for i in range(6):
    for j in range(4):
        looped[i, j] = positions[i] * frequencies[j]

angles = positions.unsqueeze(1) * frequencies  # (6, 1) * (4,) -> (6, 4)
print("shapes:", tuple(positions.unsqueeze(1).shape), "times", tuple(frequencies.shape), "is", tuple(angles.shape))
print("same as the two loops:", torch.equal(looped, angles))
show_matrix(angles, "position times frequency", rows="position", columns="frequency number")
plt.show()

# %% [markdown]
# ### The wrong way, and no error
#
# Suppose you want to subtract its mean from each row. Without `keepdim` the means are a vector of shape `(3,)`. Aligned
# from the right, it meets the *columns*. If the matrix is not square, you are lucky and get an error:

# %%
data = torch.tensor([[1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0], [5.0, 5.0, 5.0, 5.0]])  # (3, 4)
try:
    data - data.mean(dim=1)
except RuntimeError as error:
    print("RuntimeError:", error)

# %% [markdown]
# With a square matrix nothing complains. The shape is right, the numbers look like numbers, and they are wrong: row 0
# should become $-1, 0, 1$.

# %%
square = data[:, :3]  # (3, 3)
wrong = square - square.mean(dim=1)  # (3, 3) - (3,): the means meet the columns
right = square - square.mean(dim=1, keepdim=True)  # (3, 3) - (3, 1): the means meet the rows
print("means of the rows, which should be 0. Wrong:", wrong.mean(dim=1).tolist(), " right:", right.mean(dim=1).tolist())

# %% figure Means subtracted from the wrong axis, and from the right one
figure, axes = plt.subplots(1, 3, figsize=(9, 2.3))
titles = ("the data", "without keepdim: wrong", "with keepdim: right")
for ax, matrix, title in zip(axes, (square, wrong, right), titles):
    show_matrix(matrix, title, rows="row", columns="column", diverging=True, limits=(-30, 30), ax=ax)
plt.show()

# %% claims
claim("row 0 should become -1, 0, 1", right[0].tolist() == [-1.0, 0.0, 1.0])
claim("without keepdim the means are wrong", wrong.mean(dim=1).abs().max() > 1 and right.mean(dim=1).abs().max() == 0)

# %% [markdown]
# Two habits protect you. Write the shape at the end of each line. And test with sizes that are all different: then
# such a slip becomes an error.
#
# ### Every point with every other
#
# {{exercise squared_distances}}
#
# In attention every position is compared with every other. Practise that pattern on distances: $n$ points `a` and $m$
# points `b`, each with $d$ coordinates, for each example of a batch. You want the table of all squared distances. With
# loops:
#
# ```python
# for s in range(batch):
#     for i in range(n):
#         for j in range(m):
#             table[s, i, j] = ((a[s, i] - b[s, j]) ** 2).sum()
# ```
#
# Without loops: give `a` and `b` each one new axis, so that their difference has the shape `(batch, n, m, d)`. Then
# square it and sum over the coordinates.
#
# $$D_{sij} = \sum_{f=0}^{d-1} (a_{sif} - b_{sjf})^2$$


# %% exercise squared_distances
def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """How far is each point of `a` from each point of `b`?

    a: (batch, n, d); b: (batch, m, d).
    Returns: (batch, n, m); entry [s, i, j] is the squared distance of a[s, i] and b[s, j].
    """
    ### BEGIN SOLUTION
    differences = a.unsqueeze(2) - b.unsqueeze(1)  # (batch, n, 1, d) - (batch, 1, m, d) -> (batch, n, m, d)
    return differences.pow(2).sum(dim=-1)  # (batch, n, m)
    ### END SOLUTION


# %% check squared_distances
check(squared_distances)

# %% figure Three points, four points and their squared distances
a = torch.tensor([[[0.0, 0.0], [3.0, 4.0], [1.0, 3.0]]])  # (1, 3, 2)
b = torch.tensor([[[0.0, 1.0], [3.0, 4.0], [5.0, 1.0], [2.0, 2.0]]])  # (1, 4, 2)
distances = reference.squared_distances(a, b)[0]  # (3, 4)

figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3))
for points, name, colour, marker, size in ((a[0], "a", COLOURS[0], "o", 110), (b[0], "b", COLOURS[1], "s", 30)):
    left.scatter(points[:, 0], points[:, 1], size, color=colour, marker=marker, label=f"points of {name}")
    for number, (px, py) in enumerate(points.tolist()):
        below = name == "a"
        left.annotate(f"{name}{number}", (px, py), (8, -13 if below else 5), textcoords="offset points", color=colour)
left.set(title="Three points and four points", xlabel="coordinate 0", ylabel="coordinate 1")
left.set(xlim=(-0.5, 6), ylim=(-0.8, 5))
left.legend(loc="upper left")
show_matrix(
    distances,
    "their squared distances",
    rows="point of a",
    columns="point of b",
    row_names=["a0", "a1", "a2"],
    column_names=["b0", "b1", "b2", "b3"],
    ax=right,
)
plt.show()

# %% claims
claim("a0 and b1 are 25 apart, a1 lies on b1", distances[0, 1] == 25 and distances[1, 1] == 0)

# %% [markdown]
# Check one entry by hand: a0 is $(0, 0)$ and b1 is $(3, 4)$, so it is $9 + 16 = 25$. And a1 lies on b1: distance 0.
#
# ## Batched matrix products
#
# {{exercise batch_matmul}}
#
# The second pattern is a matrix product for each example of the batch. For one example it is `a[s] @ b[s]`:
#
# $$C_{sij} = \sum_f a_{sif}\, b_{sfj}$$
#
# The batch index $s$ stands on both sides and is never summed over: examples do not mix. Write it as a loop over the
# examples first, and check it. Then replace the loop with one expression, and check again. Both are right.


# %% exercise batch_matmul
def batch_matmul(a: Tensor, b: Tensor) -> Tensor:
    """One matrix product for each example of the batch.

    a: (batch, n, d); b: (batch, d, m).
    Returns: (batch, n, m); example s is the matrix product of a[s] and b[s].
    """
    ### BEGIN SOLUTION
    # The loop: torch.stack([a[s] @ b[s] for s in range(len(a))])
    return a @ b  # (batch, n, m); torch.bmm(a, b) does the same
    ### END SOLUTION


# %% check batch_matmul
check(batch_matmul)

# %% figure Two examples, two matrix products
torch.manual_seed(0)
a, b = torch.randint(-2, 3, (2, 2, 3)).float(), torch.randint(-2, 3, (2, 3, 4)).float()
product = reference.batch_matmul(a, b)  # (2, 2, 4)
figure, axes = plt.subplots(2, 3, figsize=(8.4, 4.4), width_ratios=(3, 4, 4))
for s, (first, second, third) in enumerate(axes):
    show_matrix(a[s], f"a[{s}]   (2, 3)", rows="i", columns="f", diverging=True, limits=(-8, 8), ax=first)
    show_matrix(b[s], f"b[{s}]   (3, 4)", rows="f", columns="j", diverging=True, limits=(-8, 8), ax=second)
    show_matrix(product[s], "their product   (2, 4)", rows="i", columns="j", diverging=True, limits=(-8, 8), ax=third)
plt.show()

# %% [markdown]
# Each row of pictures is one example, and nothing passes from one to the other. `a @ b` and `torch.bmm(a, b)` do the
# same here; `@` also takes more than one batch axis.
#
# Why avoid loops? Because that is where a Transformer's speed comes from. It does *not* go through a sentence word by
# word, as you might think. All pairs of positions are compared in one product (the times depend on your machine):

# %%
torch.manual_seed(0)
sentence = torch.randn(1, 200, 64)  # (batch, time, feature)

start = time.perf_counter()
one_by_one = torch.zeros(1, 200, 200)
for i in range(200):
    for j in range(200):
        one_by_one[0, i, j] = sentence[0, i] @ sentence[0, j]
loop_seconds = time.perf_counter() - start

torch.bmm(sentence, sentence.transpose(1, 2))  # the first call is slower: it is not timed
start = time.perf_counter()
at_once = torch.bmm(sentence, sentence.transpose(1, 2))  # (1, 200, 64) @ (1, 64, 200) -> (1, 200, 200)
product_seconds = time.perf_counter() - start

print("same numbers:", torch.allclose(one_by_one, at_once, atol=1e-4))
print(f"40 000 dot products one by one: {1000 * loop_seconds:.1f} ms, in one product: {1000 * product_seconds:.2f} ms")

# %% [markdown]
# ## Padding: sentences are not equally long
#
# {{exercise pad_batch}}
#
# A tensor is a rectangle, and a list of sentences is not. So short ones are filled up with a special id, `pad_id`
# ({{term padding}}), and we keep a second tensor, `lengths`, that says how many entries of each row are real. Sometimes
# a limit `max_len` is set as well, because memory is limited: longer sequences are then cut off at the end.
#
# With `pad_id = 0` and no limit:
#
# | sequences | batch | lengths |
# |---|---|---|
# | `[5, 6, 7]` | `[5, 6, 7, 0, 0]` | 3 |
# | `[8]` | `[8, 0, 0, 0, 0]` | 1 |
# | `[9, 9, 9, 9, 4]` | `[9, 9, 9, 9, 4]` | 5 |
#
# The rules, where $n_i$ is the length of sequence $i$:
#
# $$\text{width} = \begin{cases}\max_i n_i & \text{without a limit}\\ \text{max\_len} & \text{with a limit}\end{cases}
# \qquad\qquad \text{length}_i = \min(n_i, \text{width})$$
#
# So with `max_len` the rectangle is always exactly that wide, even if every sequence is shorter. A loop over the
# sequences is fine here.


# %% exercise pad_batch
def pad_batch(sequences: list[Tensor], pad_id: int, max_len: int | None = None) -> tuple[Tensor, Tensor]:
    """Put sequences of different lengths into one rectangle.

    sequences: 1-D integer tensors. pad_id: fills the unused places, at the end of each row.
    max_len: the width of the rectangle; longer sequences are cut off at the end. None: as wide as the longest sequence.
    Returns: batch (batch, width) and lengths (batch,), both integer tensors. lengths counts the real entries of
    each row, after the cut. A real entry may happen to be equal to pad_id; it still counts.
    """
    ### BEGIN SOLUTION
    width = max(len(sequence) for sequence in sequences) if max_len is None else max_len
    batch = torch.full((len(sequences), width), pad_id)  # (batch, width)
    lengths = []
    for row, sequence in enumerate(sequences):
        kept = sequence[:width]
        batch[row, : len(kept)] = kept
        lengths.append(len(kept))
    return batch, torch.tensor(lengths)
    ### END SOLUTION


# %% check pad_batch
check(pad_batch)

# %% [markdown]
# Three sentences as a batch, once without a limit and once with one:

# %% figure Three sentences as a padded batch
texts = ["the cat is on the mat", "no", "the cat sleeps"]
words = sorted({word for text in texts for word in text.split()})
ids = [torch.tensor([words.index(word) + 1 for word in text.split()]) for text in texts]  # 0 is left for padding


def draw_batch(batch, lengths, title, ax):
    real = torch.arange(batch.shape[1]) < lengths[:, None]  # (batch, width)
    ax.imshow(real, cmap="cividis", vmin=-0.4, vmax=1.2, aspect="auto")
    for i, line in enumerate(batch.tolist()):
        for j, word_id in enumerate(line):
            name = words[word_id - 1] if real[i, j] else "pad"
            ax.text(j, i, name, ha="center", va="center", fontsize=8, color="black" if real[i, j] else "white")
    ax.set(title=title, xlabel="time", ylabel="sentence")
    ax.set_xticks(range(batch.shape[1]))
    ax.set_yticks(range(len(lengths)), [f"{i}  (length {n})" for i, n in enumerate(lengths.tolist())])
    ax.tick_params(length=0)


figure, axes = plt.subplots(1, 2, figsize=(9, 2.3), width_ratios=(6.5, 4.5))
draw_batch(*reference.pad_batch(ids, 0), "no limit: (3, 6)", axes[0])
draw_batch(*reference.pad_batch(ids, 0, max_len=4), "max_len=4: (3, 4)", axes[1])
plt.show()

# %% [markdown]
# Sound works the same way, except that each step is a vector and not an id. "Good morning!" takes 2 seconds, a longer
# sentence 4. Torch has a function for this too:

# %%
recordings = [torch.randn(200, 80), torch.randn(400, 80)]  # (frames, features): 2 s and 4 s
x = nn.utils.rnn.pad_sequence(recordings, batch_first=True)  # (batch, max_len, features), padded with 0
lengths = torch.tensor([len(recording) for recording in recordings])
print("batch", tuple(x.shape), "  lengths", lengths.tolist())
print("real: x[0, :200]   padding: x[0, 200:], all zero:", not x[0, 200:].any().item())
print(f"share of the batch that is padding: {1 - lengths.sum().item() / (x.shape[0] * x.shape[1]):.0%}")

# %% [markdown]
# The output of a model has the same form. For each position of the target text it has one score for each word of the
# vocabulary: `(batch, max_text_len, vocab_size)`, and again there are lengths. The scores are called *{{term logits}}*.
# A softmax along the last axis turns them into a distribution.

# %%
torch.manual_seed(0)
logits = torch.randn(3, 7, 11)  # (batch, max_text_len, vocab_size)
chances = reference.softmax(logits, dim=-1)
for name, tensor in {"logits": logits, "softmax": chances}.items():
    sums = ", ".join(f"{value:.2f}" for value in tensor[0, :3].sum(dim=-1).tolist())
    print(f"{name:8} {tuple(tensor.shape)}   sums over the vocabulary at the first three places: {sums}")

# %% [markdown]
# ### Does the value of the padding matter?
#
# The usual answer is no, since the {{term loss}} leaves padded places out. That is only half of it. Take a layer in
# which positions look at each other; here each one simply adds the mean of all positions. The loss looks at real places
# only. We change nothing but the padding:

# %%
torch.manual_seed(0)
lengths = torch.tensor([2, 4])
real = (torch.arange(4) < lengths[:, None]).unsqueeze(2).float()  # (batch, time, 1): 1 where real
clean = torch.randn(2, 4, 3) * real


def loss_with(pad_value, hide_padding):
    x = clean + pad_value * (1 - real)  # (batch, time, feature)
    if hide_padding:
        mean = (x * real).sum(dim=1, keepdim=True) / real.sum(dim=1, keepdim=True)  # (batch, 1, feature)
    else:
        mean = x.mean(dim=1, keepdim=True)
    result = x + mean
    return ((result**2 * real).sum() / real.sum()).item()  # padded places are left out of the loss


for hide_padding in (False, True):
    losses = [f"{loss_with(value, hide_padding):.4f}" for value in (0.0, 1.0, 7.0)]
    print(f"padding hidden from the layer: {hide_padding!s:5}   loss with padding 0, 1, 7: {', '.join(losses)}")

# %% [markdown]
# So the value is irrelevant under *two* conditions: the loss leaves padded places out, **and** no real position looks
# at a padded one. The second is what {{term mask|masks}} are for.
#
# **Spot the mistake.** To try out a model, somebody makes inputs of width 100 and random lengths with
# `torch.randint(1, 100, (16,))`. What never gets tested?

# %%
lengths = torch.randint(1, 100, (100_000,))
print("shortest", lengths.min().item(), "  longest", lengths.max().item())

# %% claims
claim("no sequence ever fills its row", lengths.max() == 99)
claim("hidden padding has no influence", len({round(loss_with(value, True), 6) for value in (0.0, 1.0, 7.0)}) == 1)
claim("padding that is looked at has one", len({round(loss_with(value, False), 3) for value in (0.0, 1.0, 7.0)}) == 3)

# %% [markdown]
# The upper end of `randint` is exclusive. No sequence ever fills its row, although in a real batch the longest one
# always does. A test worth having: `lengths.max() == batch.shape[1]`.
#
# ## What a module keeps
#
# Models are built as `nn.Module`s. A module can do three things with a tensor that you store in it: **save** it (in
# `state_dict`, which is what a {{term checkpoint}} holds), **move** it (with `.to(device)`) and **train** it (through
# `parameters()`). Which of the three it does depends on how you store it. Here are seven ways:


# %%
class Keeper(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("table", torch.ones(2))
        self.register_buffer("scratch", torch.ones(2), persistent=False)
        self.plain = torch.ones(2)
        self.frozen = nn.Embedding.from_pretrained(torch.ones(3, 2), freeze=True)
        self.layers = nn.ModuleList([nn.Linear(2, 2)])
        self.python_list = [nn.Linear(2, 2)]


ways = {
    "nn.Parameter": ("weight", lambda m: m.weight),
    "register_buffer": ("table", lambda m: m.table),
    "register_buffer, persistent=False": ("scratch", lambda m: m.scratch),
    "plain tensor": ("plain", lambda m: m.plain),
    "Embedding.from_pretrained, freeze=True": ("frozen", lambda m: m.frozen.weight),
    "layers in nn.ModuleList": ("layers", lambda m: m.layers[0].weight),
    "layers in a Python list": ("python_list", lambda m: m.python_list[0].weight),
}
keeper = Keeper()
saved = {key.split(".")[0] for key in keeper.state_dict()}
trained = {key.split(".")[0] for key, parameter in keeper.named_parameters() if parameter.requires_grad}
moved = Keeper().to("meta")  # a device that every machine has: shapes without numbers

print(f"{'':40}saved  moved  trained")
for way, (name, tensor_of) in ways.items():
    answers = (name in saved, tensor_of(moved).device.type == "meta", name in trained)
    print(f"{way:40}" + "".join(f"{'yes' if answer else '-':7}" for answer in answers))

# %% claims
kept = {n: (n in saved, get(moved).device.type == "meta", n in trained) for n, get in ways.values()}
claim("layers in a Python list do not exist for the module", kept["python_list"] == (False, False, False))
claim("a plain tensor stays behind", kept["plain"] == (False, False, False))
claim("a buffer is saved and moved, not trained", kept["table"] == (True, True, False))
claim("a frozen embedding has the same effect", kept["frozen"] == kept["table"])

# %% [markdown]
# Look at the last line first. Layers in a Python list do not exist for the module: the {{term optimiser}} never sees
# them, and yet the model runs. **Use `nn.ModuleList`.** A plain tensor stays behind when the model moves to a graphics
# card. A constant table, such as position vectors, belongs in a **{{term buffer}}**: saved, moved, not trained. An
# embedding with `freeze=True` has the same effect: its table is a {{term parameter}} that asks for no
# {{term gradient}}.

# %% [markdown]
# ## "It runs" is not "it is right"
#
# One last demonstration, with training. The data scatter around the line $y = 2x + 1$, and we fit a line to them. The
# two runs differ in one place: the predictions have shape `(40, 1)`, and in one of them the targets have shape `(40,)`.

# %%
torch.manual_seed(0)
x = torch.linspace(-1, 1, 40).unsqueeze(1)  # (40, 1)
y = 2 * x.squeeze(1) + 1 + 0.1 * torch.randn(40)  # (40,)


def fit(target):
    slope, offset = torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    losses = []
    for _ in range(200):
        prediction = slope * x + offset  # (40, 1)
        loss = ((prediction - target) ** 2).mean()
        for parameter, gradient in zip((slope, offset), torch.autograd.grad(loss, (slope, offset))):
            parameter.data -= 0.2 * gradient
        losses.append(loss.item())
    return slope.item(), offset.item(), losses


runs = {"target (40, 1)": fit(y.unsqueeze(1)), "target (40,)": fit(y)}
for name, (slope, offset, losses) in runs.items():
    print(f"{name:15} y = {slope:.2f} x + {offset:.2f}   loss from {losses[0]:.2f} down to {losses[-1]:.2f}")

# %% figure Two runs whose losses both go down
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2))
left.scatter(x, y, s=14, color="0.6", label="data")
for (name, (slope, offset, losses)), colour, style in zip(runs.items(), COLOURS, ("-", "--")):
    left.plot(x, slope * x + offset, style, color=colour, label=name)
    right.plot(losses, style, color=colour, label=name)
left.set(title="The fitted lines", xlabel="x", ylabel="y", xticks=(-1, 0, 1))
right.set(title="Both losses go down", xlabel="step", ylabel="loss", ylim=(0, None))
left.legend()
right.legend()
plt.show()

# %% claims
(right_slope, _, right_losses), (wrong_slope, wrong_offset, wrong_losses) = runs.values()
claim("one run finds the line", abs(right_slope - 2) < 0.1)
claim("the other learns nothing about x", abs(wrong_slope) < 0.05 and abs(wrong_offset - y.mean()) < 0.05)
claim("both losses go down", right_losses[-1] < right_losses[0] and wrong_losses[-1] < wrong_losses[0])

# %% [markdown]
# Both run without an error. In both the loss goes down. One has learned nothing about `x`: `(40, 1)` minus `(40,)` is
# `(40, 40)`, every prediction minus every target, and the best answer to that is the mean.
#
# Such a mistake is found not by running the code but by testing a **property** that must hold. Here: if the prediction
# equals the target, the loss must be 0.

# %%
for name, target in {"target (40, 1)": y.unsqueeze(1), "target (40,)": y}.items():
    perfect = y.unsqueeze(1)  # (40, 1)
    print(f"{name:15} loss of a perfect prediction: {((perfect - target) ** 2).mean():.4f}")

# %% claims
claim("the loss of a perfect prediction is 0 with (40, 1)", ((perfect - y.unsqueeze(1)) ** 2).mean() == 0)
claim("and not with (40,)", ((perfect - y) ** 2).mean() > 0.5)

# %% [markdown]
# The checks of this course work this way, and so will your tests of your own models: rows add up to 1, padding changes
# nothing, the future has no influence on the past.
#
# {{question it_runs_is_not_enough}}
#
# A colleague writes: "The model runs on a random batch, and the output has the right shape (16, 50, 26), so the
# implementation is correct." Name one mistake from this notebook that would pass this test, and one property whose test
# would find it.

# %% answer it_runs_is_not_enough 2 [markdown]
# ### BEGIN SOLUTION
# A softmax with a sum that has lost its axis gives the right shape whenever the two lengths are equal, and wrong
# numbers. The property "the shares along dim add up to 1" finds it. (Or: a layer that looks at padding. Property: the
# result at real positions stays the same when only the padding changes. Or: a loss between (40, 1) and (40,).
# Property: a perfect prediction has loss 0.)
#
# **Rubric**
#
# - 1 point: a mistake that gives the right shape and wrong numbers, with the place where it would happen
# - 1 point: a property that holds for right code and fails with just this mistake; "compare with the right values" is
#   not one
# ### END SOLUTION

# %% [markdown]
# ## What you can do now
#
# - read a shape `(batch, time, feature)`, and say which axis a sum, a maximum or a softmax runs along
# - write a softmax that cannot overflow
# - compare everything with everything by `unsqueeze` and broadcasting, and multiply a whole batch of matrices at once
# - pad and cut a batch, and keep its lengths
# - say what a module saves, moves and trains
# - distrust a program that merely runs
#
# Your points so far (`exercises()` lists everything there is to do):

# %%
progress()

# %% [markdown]
# ### Further reading
#
# - Vaswani et al., *Attention Is All You Need* (2017): the paper. Read the abstract and look at figure 1; the rest will
#   be familiar to you after notebook 9.
# - Alammar, *The Illustrated Transformer* (2018), and Rush, *The Annotated Transformer* (2018): the paper in pictures,
#   and the paper line by line in code. Many pictures of this course owe something to the first.
# - Bahdanau, Cho and Bengio, *Neural Machine Translation by Jointly Learning to Align and Translate* (2015): attention
#   before the Transformer. Sutskever, Vinyals and Le, *Sequence to Sequence Learning with Neural Networks* (2014): the
#   two boxes.
# - Dosovitskiy et al., *An Image is Worth 16x16 Words* (2021), and He et al., *Masked Autoencoders Are Scalable Vision
#   Learners* (2022): the same design on images.
# - The PyTorch documentation: "Broadcasting semantics", and `torch.nn.Module`.
