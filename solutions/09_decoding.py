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
# # 9 · Decoding: from probabilities to a sentence
#
# A trained Transformer does not write sentences. It answers one question: *how likely is each token as the next one?*
# Everything else, from choosing a token to knowing when to stop, is **decoding**. You will write greedy decoding, beam
# search and three ways of drawing lots, make all of them fast with a KV cache, and measure what comes out. Nothing is
# trained here: a translator from English to French comes with the course. About 90 minutes.

# %% setup
import argparse
import inspect
import logging
import math
import os
import random
import time
from collections import Counter

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib import check, hint, solution
from course_lib import decoding as reference
from course_lib.decoding import cached, exact_match, generate, ngrams, uncached
from course_lib.grammar import make_data, spell
from course_lib.multi_head_attention import merge_heads, split_heads
from course_lib.plotting import COLOURS, show_matrix, use_course_style
from course_lib.transformer import Transformer
from course_lib.translation import BOS, EOS, PAD, encode_pairs, english_vocabulary, french_vocabulary, load_translator

use_course_style()
torch.set_num_threads(1)  # on a machine with other work to do, several threads wait for each other
FAST = os.environ.get("COURSE_FAST") == "1"  # fewer repetitions, the same code

# %% [markdown]
# ## 1 · One token at a time
#
# The translator was trained on 60,000 sentences of a small grammar. `uncached(model, source)` wraps it into a function
# that answers the one question: given the tokens so far, what are the logits of the next one?

# %%
model = load_translator().requires_grad_(False)  # nothing is trained here
english, french = english_vocabulary(), french_vocabulary()

source = english.encode("the small black cat sees a dog".split())[None]  # (1, source)
next_logits = uncached(model, source)

prefix = torch.tensor([[BOS]])  # (1, 1)
logits = next_logits(prefix)  # (1, vocab)
probabilities = logits.softmax(dim=-1)[0]
best = probabilities.topk(3)
print(f"{tuple(logits.shape)}: one number for each of the {len(french)} French words")
for p, token in zip(best.values, best.indices):
    print(f"  {french.words[token]:<8} {p:.6f}")

# %% [markdown]
# The best first word is *le*. Now put it behind BOS and ask again: what follows "BOS le"? And again with the answer.
# A model that is fed with its own answers is called **autoregressive**, and this is all that generation is:
#
# $$y_t = \text{choose}\big(P(y \mid \text{source},\, y_1 \dots y_{t-1})\big)$$

# %%
prefix = torch.tensor([[BOS]])
rows, words = [], []
for step in range(1, 10):
    probabilities = next_logits(prefix).softmax(dim=-1)[0]
    token = int(probabilities.argmax())
    rows.append(probabilities)
    words.append(french.words[token])
    print(f"step {step}: {' '.join(['BOS', *words[:-1]]):<36} → {words[-1]}  ({probabilities[token]:.4f})")
    prefix = torch.cat([prefix, torch.tensor([[token]])], dim=1)
    if token == EOS:
        break

# %% [markdown]
# And what came second? In the picture each step has the probabilities of all words that were first or second at some
# step, as powers of ten: 0 is $10^0 = 1$, certain; −4 is $10^{-4}$, one in ten thousand.

# %% figure
first_two = [token for row in rows for token in row.topk(2).indices.tolist()]
columns = list(dict.fromkeys(first_two))
figure, ax = plt.subplots(figsize=(9, 4.2))
show_matrix(
    torch.stack(rows)[:, columns].log10().round(decimals=1),
    "how likely each word is at each step (power of ten)",
    rows="step",
    columns="next word",
    row_names=[str(step) for step in range(1, len(rows) + 1)],
    column_names=[french.words[token] for token in columns],
    limits=(-8, 0),
    numbers=False,
    colourbar=True,
    ax=ax,
)
for i, row in enumerate(rows):
    for j, token in enumerate(columns):
        power = math.log10(row[token])
        ax.text(j, i, f"{power:.0f}".replace("-0", "0"), ha="center", va="center", fontsize=8,
                color="black" if power > -4 else "white")  # fmt: skip
plt.show()

# %% [markdown]
# Three things to notice.
#
# - English says *black cat*, French *chat noir*. The model chose *petit* and *chat* before it came to *noir*: it is
#   free to write in another order than it reads.
# - The sentence ends with a token of its own, `<eos>`. The loop above stops there, because we told it to.
# - This model is very sure of itself: each time the second choice is hundreds or thousands of times less likely than
#   the first. Most of this notebook is about what to do when a model is not sure.
#
# What if nobody stops it?

# %%
prefix = torch.tensor([[BOS]])
for _ in range(16):
    prefix = torch.cat([prefix, next_logits(prefix).argmax(dim=-1, keepdim=True)], dim=1)
print(" ".join(french.words[token] for token in prefix[0, 1:]))

# %% [markdown]
# It goes on for ever. This one happens to repeat EOS; another one might start a second sentence. Nothing in its
# training says what should stand there, since the places behind EOS were left out of the loss. **Stopping is the job of
# whoever runs the model.** There are two reasons to stop: the sentence has ended, or it has become too long
# (`max_len`), because a model can forget to end.
#
# (A language model that continues a poem or answers a question does the same. It only has no source: its prefix begins
# with the prompt instead of BOS alone.)
#
# ## 2 · Greedy decoding of a batch
#
# Sentences come in batches, and they end at different times. So the batch goes on until the *last* one has ended, and
# those that ended earlier are filled up with padding.
#
# Conventions differ from library to library, and it is easy to be off by one token. In this course:
#
# | name | what it does |
# |---|---|
# | BOS | starts every prefix that the model sees; is **not** part of the result |
# | EOS | ends a sentence; **is** part of the result |
# | PAD | fills the places behind EOS |
# | `max_len` | counts the tokens of the result, EOS included, BOS not |
#
# Write **greedy decoding**: at each step, and for each sentence, take
#
# $$y_t = \arg\max_y\, P(y \mid \text{source},\, y_1 \dots y_{t-1})$$
#
# The model is passed as a function `next_logits`. It wants the **whole** prefix each time, `(rows, time)` with BOS
# first, and returns `(rows, vocab)`.
#
# {{exercise greedy_decode}}


# %% exercise greedy_decode
def greedy_decode(next_logits, rows: int, bos_id: int, eos_id: int, pad_id: int, max_len: int) -> Tensor:
    """Take the best token, again and again, for `rows` sentences at once.

    next_logits: a function; given prefixes (rows, time), BOS first, it returns logits (rows, vocab).
    Stops when every sentence has had its EOS, or when there are max_len tokens. Nothing but EOS ends a sentence.
    Returns: (rows, time) token ids with time ≤ max_len, without BOS, with EOS, pad_id in the places behind EOS.
    """
    ### BEGIN SOLUTION
    ids = torch.full((rows, 1), bos_id)  # (rows, time)
    ended = torch.zeros(rows, dtype=torch.bool)
    for _ in range(max_len):
        best = next_logits(ids).argmax(dim=-1)  # (rows,)
        best = torch.where(ended, pad_id, best)
        ids = torch.cat([ids, best[:, None]], dim=1)
        ended = ended | (best == eos_id)
        if ended.all():
            break
    return ids[:, 1:]
    ### END SOLUTION


# %% check greedy_decode
check(greedy_decode)

# %%
by_length = {len(pair.french): pair for pair in make_data().test[:200]}
pairs = [by_length[length] for length in (11, 6, 8, 13, 9)]
sources, _ = encode_pairs(pairs)  # (5, source), padded
ids = reference.greedy_decode(uncached(model, sources), len(sources), BOS, EOS, PAD, max_len=20)

for pair, row in zip(pairs, ids):
    print(f"{' '.join(pair.english)}\n    → {spell(french.decode(row))}")

# %% figure
kind = 2 * (ids == EOS).float() + (ids == PAD).float()
ax = show_matrix(
    kind,
    "the batch of results: words (dark), EOS (yellow), padding (grey)",
    rows="sentence",
    columns="step",
    column_names=[str(step) for step in range(1, ids.shape[1] + 1)],
    numbers=False,
    limits=(0, 2),
)
for i, row in enumerate(ids.tolist()):
    for j, token in enumerate(row):
        text = {PAD: "", EOS: "EOS"}.get(token, french.words[token])
        ax.text(j, i, text, ha="center", va="center", fontsize=8, color="black" if token == EOS else "white")
ax.figure.set_size_inches(10, 2.8)
plt.show()

# %% [markdown]
# The batch is as long as its longest sentence. Each row has one EOS and nothing but padding behind it.
#
# Does a sentence's translation depend on its neighbours in the batch, or on the padding of its source? It must not.

# %%
alone = []
for pair in pairs:
    one, _ = encode_pairs([pair])
    alone.append(reference.greedy_decode(uncached(model, one), 1, BOS, EOS, PAD, max_len=20)[0].tolist())
together = [[token for token in row.tolist() if token != PAD] for row in ids]
print("each sentence alone = all together:", alone == together)

# %% [markdown]
# ## 3 · The best word may lead into a bad sentence
#
# Greedy decoding never looks back. Here is a model with six tokens, small enough to work out by hand. It starts with
# *I* (0.5) or *a* (0.4), seldom with anything else. After *I* it is unsure; after *a* it is nearly certain of
# *student*.

# %%
TOKENS = ["BOS", "EOS", "I", "a", "am", "student"]
TOY = {  # last token -> probabilities of the next one
    "BOS": {"I": 0.50, "a": 0.40, "am": 0.05, "student": 0.05},
    "I": {"am": 0.40, "student": 0.35, "a": 0.25},
    "a": {"student": 0.90, "am": 0.05, "I": 0.05},
    "am": {"EOS": 1.0},
    "student": {"EOS": 1.0},
}


def toy_logits(prefixes: Tensor) -> Tensor:
    """(rows, time) -> (rows, 6). The toy looks at the last token alone."""
    answer = torch.full((len(prefixes), len(TOKENS)), 1e-9)
    for row, last in enumerate(prefixes[:, -1].tolist()):
        for word, probability in TOY.get(TOKENS[last], {}).items():
            answer[row, TOKENS.index(word)] = probability
    return answer.log()


greedy = reference.greedy_decode(toy_logits, 1, bos_id=0, eos_id=1, pad_id=0, max_len=5)[0].tolist()
print("greedy:", [TOKENS[token] for token in greedy], f" 0.50 · 0.40 = {0.5 * 0.4:.2f}")
print("missed: ['a', 'student', 'EOS']   0.40 · 0.90 =", f"{0.4 * 0.9:.2f}")

# %% figure
fig, ax = plt.subplots(figsize=(8, 3.4))
places = {"BOS": (0, 0.5), "I": (1, 0.78), "a": (1, 0.22)}
ends = {
    ("I", "am"): 0.98,
    ("I", "student"): 0.78,
    ("I", "a"): 0.58,
    ("a", "student"): 0.30,
    ("a", "am"): 0.14,
    ("a", "I"): -0.02,
}
for word in ("I", "a"):
    colour = COLOURS[0] if word == "I" else COLOURS[1]
    ax.plot([0.13, 0.94], [0.5, places[word][1]], color=colour, linewidth=8 * TOY["BOS"][word])
    ax.text(0.5, (0.5 + places[word][1]) / 2 + 0.06, f"{TOY['BOS'][word]:.2f}", ha="center")
    ax.text(1, places[word][1], word, ha="center", va="center", fontweight="bold")
ax.text(0, 0.5, "BOS", ha="center", va="center", fontweight="bold")
for (word, following), height in ends.items():
    p = TOY[word][following]
    first = TOY["BOS"][word]
    chosen = (word, following) in (("I", "am"), ("a", "student"))
    colour = (COLOURS[0] if word == "I" else COLOURS[1]) if chosen else "#999999"
    ax.plot([1.06, 1.94], [places[word][1], height], color=colour, linewidth=max(0.8, 8 * first * p))
    ax.text(2.0, height, f"{following}", va="center", fontweight="bold" if chosen else "normal")
    ax.text(2.35, height, f"{first:.2f} · {p:.2f} = {first * p:.3f}", va="center")
ax.text(3.0, ends["I", "am"], "← greedy", va="center", color=COLOURS[0])
ax.text(3.0, ends["a", "student"], "← the best", va="center", color=COLOURS[1])
ax.set(
    title="Two steps of the toy: lines are as thick as their sentences are likely", xlim=(-0.15, 3.4), ylim=(-0.1, 1.08)
)
ax.set(xlabel="step", xticks=[0, 1, 2], yticks=[])
ax.spines["left"].set_visible(False)
plt.show()

# %% [markdown]
# Greedy gets 0.20, and there is a sentence with 0.36. To try all sentences is out of the question: with $V$ tokens and
# length $n$ there are $V^n$. **Beam search** is the compromise. It keeps the $B$ best prefixes instead of one:
#
# 1. continue each of the $B$ prefixes with each of the $V$ tokens: $B \cdot V$ candidates;
# 2. keep the $B$ best of *all* of them; one prefix may have several children among these, another none;
# 3. those that end with EOS are set aside, the others go on.
#
# By hand, on the toy with $B = 2$ (follow it in the picture):
#
# | round | candidates, best first | the two that are kept |
# |---|---|---|
# | 1 | *I* 0.50, *a* 0.40, *am* 0.05, *student* 0.05 | *I*, *a* |
# | 2 | *a student* 0.36, *I am* 0.20, *I student* 0.175, *I a* 0.125, … | *a student*, *I am* |
# | 3 | *a student* EOS 0.36, *I am* EOS 0.20, … | both have ended, and *a student* wins |
#
# The probability of a sentence is a product of many small factors. To keep it from running down to 0, add logarithms:
#
# $$\log P(y) = \sum_{t} \log P(y_t \mid y_1 \dots y_{t-1})$$

# %%
print("0.2 to the power 500 in float32:", (torch.tensor(0.2) ** 500).item())
print("its logarithm, 500 · ln 0.2:    ", round(500 * math.log(0.2), 1))

# %% [markdown]
# > **Spot the mistake.** "Beam search runs the model twice, once for *I* and once for *a*, and keeps the version that
# > makes fewer errors."
#
# <details><summary>What is wrong with it?</summary>
#
# Nobody knows the errors. When a sentence is being generated there is no right answer to compare with. Beam search
# keeps what the *model* finds more probable, the highest sum of log-probabilities. If the model is wrong, the beam
# finds wrong sentences more reliably.
#
# </details>
#
# ### Long sentences are punished
#
# Each further token multiplies by a number below 1. So log-probabilities fall with length, and a search for the largest
# one prefers sentences that end early. The usual cure is to divide by a power of the length:
#
# $$\text{score}(y) = \frac{\log P(y)}{\text{length}^{\,\alpha}}$$
#
# $\alpha = 0$ changes nothing; $\alpha = 1$ takes the mean per token.

# %%
lengths = torch.arange(1, 21)
fig, ax = plt.subplots(figsize=(6.5, 3))
for alpha, style in ((0.0, "o-"), (0.6, "s-"), (1.0, "^-")):
    ax.plot(lengths, lengths * math.log(0.8) / lengths**alpha, style, markersize=4, label=f"α = {alpha:g}")
ax.set(title="Score of a sentence in which every token has probability 0.8", xlabel="length", ylabel="score")
ax.set(xticks=range(0, 21, 5), ylim=(None, 0))
ax.legend()
plt.show()

# %% [markdown]
# With α = 0 the same quality per word looks worse and worse; with α = 1 the length plays no part.
#
# Now write it, for one sentence. In detail:
#
# - Start with one prefix, BOS, whose total is 0.
# - In each round, the best `beam_size` candidates **by total log-probability** are kept.
# - Of these, those that end with EOS are finished. So are all, when there are `max_len` tokens: what has no EOS by then
#   counts as it stands. The others go on. Each round keeps `beam_size` again, however many have finished before.
# - When none goes on, the finished sentence with the best score wins. `length` counts its tokens, EOS included, BOS
#   not.
#
# Your `topk` runs over the flattened `(beam, vocab)` candidates. A place in it is `parent * vocab_size + token`: `//`
# and `%` take it apart.
#
# {{exercise beam_search}}


# %% exercise beam_search
def beam_search(
    next_logits, beam_size: int, bos_id: int, eos_id: int, max_len: int, alpha: float
) -> tuple[list[int], float]:
    """Keep the `beam_size` best unfinished prefixes instead of one.

    next_logits: a function; given prefixes (any number of rows, time), BOS first, it returns logits (rows, vocab).
    Returns: the ids of the best sentence, a list without BOS and with EOS (if it has one), and its score,
    log-probability / length**alpha.
    """
    ### BEGIN SOLUTION
    prefixes, totals, finished = torch.tensor([[bos_id]]), torch.zeros(1), []  # (beam, time), (beam,)
    for length in range(1, max_len + 1):
        candidates = totals[:, None] + next_logits(prefixes).log_softmax(dim=-1)  # (beam, vocab)
        vocab_size = candidates.shape[1]
        totals, places = candidates.flatten().topk(min(beam_size, candidates.numel()))
        parents, tokens = places // vocab_size, places % vocab_size
        prefixes = torch.cat([prefixes[parents], tokens[:, None]], dim=1)
        over = (tokens == eos_id) | (length == max_len)
        for total, prefix in zip(totals[over], prefixes[over]):
            finished.append((total.item() / length**alpha, prefix[1:].tolist()))
        prefixes, totals = prefixes[~over], totals[~over]
        if over.all():
            break
    score, best = max(finished)
    return best, score
    ### END SOLUTION


# %% check beam_search
check(beam_search)

# %% [markdown]
# Stuck? `hint("beam_search")` gives one hint at a time. The same toy with beams of 1, 2 and 3:

# %%
for beam_size in (1, 2, 3):
    ids, score = reference.beam_search(toy_logits, beam_size, bos_id=0, eos_id=1, max_len=5, alpha=0.0)
    print(f"beam {beam_size}: {' '.join(TOKENS[token] for token in ids):<16} probability {math.exp(score):.2f}")

# %% [markdown]
# Two prefixes are enough here. (Libraries often have a second number beside `beam_size`, called `top_beams` or similar:
# how many of the finished sentences are returned. Ours returns the best one.)
#
# Does it help the translator? We compare greedy decoding with a beam of 4 and $\alpha = 1$.

# %%
test = make_data().test[: 40 if FAST else 120]
test_sources, _ = encode_pairs(test)
references = [list(pair.french) for pair in test]


def real(row: Tensor) -> Tensor:
    """One source without its padding: (1, time)."""
    return row[None, : int((row != PAD).sum())]


def compare(translator: Transformer, beam_size: int = 4, alpha: float = 1.0) -> tuple[float, float, int]:
    """Exact match of greedy and beam search, and how many sentences differ."""
    by_greedy = [french.decode(row) for row in generate(translator, test_sources, BOS, EOS, max_len=20)]
    by_beam = []
    for row in test_sources:
        ids, _ = reference.beam_search(uncached(translator, real(row)), beam_size, BOS, EOS, max_len=20, alpha=alpha)
        by_beam.append(french.decode(ids))
    differ = sum(one != other for one, other in zip(by_greedy, by_beam))
    return exact_match(by_greedy, references), exact_match(by_beam, references), differ


greedy_exact, beam_exact, differ = compare(model)
print(f"{len(test)} sentences: greedy {greedy_exact:.1%} exact, beam 4 {beam_exact:.1%}, {differ} translations differ")

# %% [markdown]
# Not at all: this model is so sure that greedy already finds what the beam finds. A search can only help a model that
# hesitates. So let us spoil the translator: multiply every weight by $1 + 0.4\,\varepsilon$, with $\varepsilon$ drawn
# from a normal distribution. We do it with several seeds, because one run proves nothing.


# %%
def spoiled(seed: int, strength: float = 0.4) -> Transformer:
    """The translator with noise on all weights."""
    torch.manual_seed(seed)
    worse = load_translator().requires_grad_(False)
    for parameter in worse.parameters():
        parameter.mul_(1 + strength * torch.randn_like(parameter))
    return worse


changes = []
for seed in range(1 if FAST else 4):
    greedy_exact, beam_exact, differ = compare(spoiled(seed))
    changes.append(100 * (beam_exact - greedy_exact))
    print(
        f"seed {seed}: greedy {greedy_exact:6.1%}, beam {beam_exact:6.1%}, {changes[-1]:+.1f} points, {differ} differ"
    )

# %% figure
fig, ax = plt.subplots(figsize=(6, 3))
ax.bar(range(len(changes)), changes, color=[COLOURS[0] if change >= 0 else COLOURS[1] for change in changes])
ax.axhline(0, color="black", linewidth=0.8)
ax.set(
    title="Beam 4 against greedy, spoiled translators",
    xlabel="seed of the noise",
    ylabel="gain in exact match (points)",
    xticks=range(len(changes)),
)
plt.show()

# %% [markdown]
# A gain each time, and a small one: of 120 sentences one is 0.8 points, so it is five to seven sentences. Many more
# translations differ than become right. The price is a model that works on four
# prefixes instead of one. Vaswani et al. (2017) used a beam of 4 with α = 0.6 (in a slightly different formula). It is
# worth knowing, and no cure: measure on your own model before you believe in it.
#
# ## 4 · Drawing lots
#
# A translation has few right answers, a story has many. Always taking the best token gives the same text every time,
# and with language models a dull one that repeats itself. The other way is to **draw** the next token with the
# probabilities that the model gives.
#
# How adventurous the draw is can be set. Divide the logits by a **temperature** $T$ before the softmax:
#
# $$p_i = \frac{e^{z_i / T}}{\sum_j e^{z_j / T}}$$

# %%
logits = torch.tensor([2.0, 1.0, 0.5, 0.0, -1.0])
fig, axes = plt.subplots(1, 4, figsize=(9, 2.6), sharey=True)
for ax, T in zip(axes, (0.25, 0.5, 1.0, 2.0)):
    p = (logits / T).softmax(dim=-1)
    ax.bar(range(5), p, color=COLOURS[0])
    for i, value in enumerate(p):
        ax.text(i, value + 0.02, f"{value:.2f}", ha="center", fontsize=8)
    ax.set(title=f"T = {T:g}", xlabel="token", xticks=range(5), ylim=(0, 1.1))
axes[0].set_ylabel("probability")
plt.show()

# %% [markdown]
# $T < 1$ sharpens, $T > 1$ flattens. In the limit $T \to 0$ the best token gets everything, which is greedy decoding;
# in the limit $T \to \infty$ all tokens are alike. It has to be done to the *logits*: probabilities divided by $T$ no
# longer sum to 1, and made to sum to 1 again they are the old ones.
#
# And how does a computer draw? It has random numbers $u$ between 0 and 1. Lay the probabilities end to end on a line of
# length 1, token 0 first. The token on whose piece $u$ falls is drawn: a piece twice as long is hit twice as often.

# %% figure
p = logits.softmax(dim=-1)
ends_at = p.cumsum(dim=-1)
fig, ax = plt.subplots(figsize=(8, 1.9))
left = 0.0
for token, (width, right) in enumerate(zip(p.tolist(), ends_at.tolist())):
    ax.barh(0, width, left=left, color=COLOURS[token], edgecolor="white", height=0.6)
    ax.text(left + width / 2, 0, str(token), ha="center", va="center", color="white" if token < 3 else "black")
    left = right
ax.plot([0.7, 0.7], [-0.45, 0.45], color="black", linewidth=2)
ax.text(0.7, 0.5, "u = 0.7 draws token 1", ha="center")
ax.set(title="The running sum of the probabilities", xlabel="u", yticks=[], xlim=(0, 1), ylim=(-0.45, 0.75))
ax.set_xticks([0, *[round(e, 2) for e in ends_at[:3].tolist()], 1])
ax.spines["left"].set_visible(False)
plt.show()

# %% [markdown]
# In a formula, with $u$ from 0 (included) to 1 (excluded):
#
# $$\text{draw} = \min\Big\{\, i \;:\; \sum_{j \le i} p_j > u \,\Big\}$$
#
# Your function gets $u$ from outside. That makes it a function without hidden chance: the same $u$ draws the same
# token, so it can be repeated, and checked. At temperature 0 no division is possible; return the best token then.
#
# {{exercise sample}}


# %% exercise sample
def sample(logits: Tensor, temperature: float, u: Tensor) -> Tensor:
    """Draw one token for each row, with the probabilities softmax(logits / temperature).

    logits: (batch, vocab), 1000 and -inf too; temperature: 0 or more, 0 means the best token; u: (batch,), numbers in
    [0, 1).
    The token drawn is the first whose running sum of probabilities, in the order of the ids, is greater than u.
    Returns: (batch,) token ids.
    """
    ### BEGIN SOLUTION
    if temperature == 0:
        return logits.argmax(dim=-1)
    probabilities = (logits / temperature).softmax(dim=-1)  # (batch, vocab)
    ends = probabilities.cumsum(dim=-1)  # where each token's piece ends
    ends = ends / ends[:, -1:]  # the last one at exactly 1, whatever rounding did
    passed = ends <= u[:, None]  # pieces that lie wholly before u
    return passed.sum(dim=-1)
    ### END SOLUTION


# %% check sample
check(sample)

# %% [markdown]
# Does it draw fairly? Ten thousand draws, against the probabilities, and against `torch.multinomial`, which does the
# same with random numbers of its own.

# %%
torch.manual_seed(0)
many = logits.expand(10_000, -1)
mine = reference.sample(many, 0.7, torch.rand(10_000)).bincount(minlength=5) / 10_000
p = (logits / 0.7).softmax(dim=-1)
torchs = torch.multinomial(p, 10_000, replacement=True).bincount(minlength=5) / 10_000
fig, ax = plt.subplots(figsize=(6.5, 2.8))
for offset, (name, values) in zip(
    (-0.27, 0, 0.27), (("probability", p), ("sample", mine), ("torch.multinomial", torchs))
):
    ax.bar(torch.arange(5) + offset, values, width=0.25, label=name)
ax.set(title="10,000 draws at T = 0.7", xlabel="token", ylabel="share", xticks=range(5))
ax.legend()
plt.show()

# %% [markdown]
# ### What temperature does to a text
#
# The translator is too sure to show it, so here is a model made of nothing but counts: after any four characters, how
# often did each character come next? It "read" the documentation inside of Python's own modules. It sees a **sliding
# window** of four characters: after each draw the window moves on by one, and what falls out of it is forgotten. A
# Transformer with a window of 256 tokens is used in the same way: `next_logits(ids[:, -256:])`.

# %%
WINDOW = 4
text = "\n".join(inspect.getdoc(thing) or "" for thing in (random.Random, argparse, logging.Logger, dict, str, list))
text += "\n".join(
    inspect.getdoc(getattr(cls, name)) or "" for cls in (random.Random, str, list, dict) for name in dir(cls)
)
text = " ".join(text.split())
characters = sorted(set(text))
follows: dict[str, Counter[str]] = {}
for i in range(len(text) - WINDOW):
    follows.setdefault(text[i : i + WINDOW], Counter())[text[i + WINDOW]] += 1


def character_logits(window: str) -> Tensor:
    """Logarithms of the counts, (1, characters). What never followed has -inf."""
    counts = follows.get(window, Counter(characters))
    return torch.tensor([[float(counts[character]) for character in characters]]).log()


for T in (0.2, 0.5, 1.0, 2.0):
    torch.manual_seed(1)
    written = "Retu"
    for _ in range(90):
        drawn = reference.sample(character_logits(written[-WINDOW:]), T, torch.rand(1))
        written += characters[int(drawn)]
    print(f"T = {T}:  {written}")

# %% [markdown]
# At 0.2 the text is what occurs most often, and runs in circles. At 2 it takes rare turns at every step. What people
# use lies between them, mostly from 0.5 to 1.
#
# ## 5 · Cutting off the tail
#
# Drawing has a weakness. A vocabulary has tens of thousands of tokens, and almost all of them are nonsense at a given
# place. Each has a tiny probability, but together they have a lot.

# %%
vocab = 50_000
good, tail = 0.95, 0.05  # 20 sensible tokens share 0.95, the other 49,980 share 0.05
print(f"one nonsense token: {tail / (vocab - 20):.7f}")
for n in (1, 20, 100):
    print(f"at least one nonsense token among {n:>3}: {1 - good**n:.0%}")

# %% [markdown]
# After a hundred tokens it is nearly certain that one of them was nonsense, and the model then has to go on from
# there. The cure: cut off the tail before drawing. **Top-k** keeps the k largest logits and sets the others to
# $-\infty$, so that their probability is exactly 0:
#
# $$z_i' = \begin{cases} z_i & \text{if } z_i \text{ is among the } k \text{ largest of its row}\\
# -\infty & \text{else}\end{cases}$$
#
# Only the logits change; the softmax that follows makes the rest sum to 1 again.
#
# {{exercise top_k_filter}}


# %% exercise top_k_filter
def top_k_filter(logits: Tensor, k: int) -> Tensor:
    """Keep the k largest logits of each row; the others become -inf.

    logits: (..., vocab), any number of axes in front, of any size; no two logits of a row are equal.
    k: 1 or more. If it is larger than the vocabulary, everything is kept.
    Returns: the same shape.
    """
    ### BEGIN SOLUTION
    largest = logits.topk(min(k, logits.shape[-1]), dim=-1).values  # (..., k), falling
    smallest_kept = largest[..., -1:]  # (..., 1)
    return logits.masked_fill(logits < smallest_kept, -math.inf)
    ### END SOLUTION


# %% check top_k_filter
check(top_k_filter)

# %%
sure = torch.tensor([0.80, 0.09, 0.05, 0.03, 0.01, 0.01, 0.005, 0.005]).log()
unsure = torch.tensor([0.17, 0.16, 0.15, 0.14, 0.13, 0.12, 0.08, 0.05]).log()


def draw_filtered(ax, logits: Tensor, filtered: Tensor, title: str) -> None:
    """Before: light bars. After: dark ones."""
    ax.bar(range(8), logits.softmax(dim=-1), color=COLOURS[4], alpha=0.5, label="before")
    ax.bar(range(8), filtered.softmax(dim=-1), color=COLOURS[0], width=0.45, label="after")
    ax.set(title=title, xlabel="token", xticks=range(8), ylim=(0, 1))


fig, axes = plt.subplots(1, 2, figsize=(8.5, 2.7), sharey=True)
draw_filtered(axes[0], sure, reference.top_k_filter(sure, 3), "a sure model, k = 3")
draw_filtered(axes[1], unsure, reference.top_k_filter(unsure, 3), "an unsure model, k = 3")
axes[0].set_ylabel("probability")
axes[0].legend()
plt.show()

# %% [markdown]
# The same k does not fit both. On the left two doubtful tokens are kept beside a clear one; on the right three of eight
# are kept, though six are about equally good.
#
# **Top-p** (nucleus sampling, Holtzman et al. 2020) fixes the probability instead of the number: sort the tokens by
# falling probability, and keep the fewest whose probabilities together reach $p$. The token with which the sum crosses
# $p$ is kept. So a token stays if the more likely ones together have *less* than $p$:
#
# $$\text{keep } i \iff \sum_{j \,:\, p_j > p_i} p_j < p$$
#
# By hand: probabilities 0.1, 0.45, 0.15, 0.3 and $p = 0.7$. In falling order 0.45, 0.3, 0.15, 0.1, with 0, 0.45, 0.75,
# 0.9 in front of them. The first two stay: tokens 1 and 3.
#
# Mind the way back: after sorting, each logit has to return to its own token's place.
#
# {{exercise top_p_filter}}


# %% exercise top_p_filter
def top_p_filter(logits: Tensor, p: float) -> Tensor:
    """Keep the fewest tokens, most likely first, whose probabilities sum to p or more; the others become -inf.

    logits: (..., vocab), any number of axes in front, of any size; p: between 0 and 1.
    Returns: the same shape; what is kept has its old logit, at its old place.
    """
    ### BEGIN SOLUTION
    falling, order = logits.sort(dim=-1, descending=True)  # (..., vocab)
    probabilities = falling.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities  # what the more likely tokens have together
    falling = falling.masked_fill(before >= p, -math.inf)
    return torch.empty_like(logits).scatter(-1, order, falling)
    ### END SOLUTION


# %% check top_p_filter
check(top_p_filter)

# %%
by_hand = torch.tensor([0.1, 0.45, 0.15, 0.3])
print("the example above:", reference.top_p_filter(by_hand.log(), 0.7).softmax(dim=-1))

fig, axes = plt.subplots(1, 2, figsize=(8.5, 2.7), sharey=True)
draw_filtered(axes[0], sure, reference.top_p_filter(sure, 0.85), "a sure model, p = 0.85")
draw_filtered(axes[1], unsure, reference.top_p_filter(unsure, 0.85), "an unsure model, p = 0.85")
axes[0].set_ylabel("probability")
axes[0].legend()
plt.show()

# %% [markdown]
# Of the example, 0.45 and 0.3 are left and divided by 0.75. In the picture, two tokens on the left and six on the
# right: the cut adapts itself. In practice one combines these: temperature, then top-k or top-p, then the draw.
#
# ### One source, two translations
#
# The encoder turns the source into one memory, and that memory is the same each time. With greedy decoding the output
# is the same too. With drawing it need not be. The translator is so sure that it takes a high temperature.


# %%
def translate_by_lot(sentence: str, temperature: float, p: float, seed: int) -> str:
    """Draw a translation token by token."""
    torch.manual_seed(seed)
    next_logits = cached(model, english.encode(sentence.split())[None])
    ids = torch.tensor([[BOS]])
    while ids[0, -1] != EOS and ids.shape[1] < 20:
        logits = reference.top_p_filter(next_logits(ids) / temperature, p)
        token = reference.sample(logits, 1.0, torch.rand(1))
        ids = torch.cat([ids, token[:, None]], dim=1)
    return spell(french.decode(ids[0]))


sentence = "the small black cat sees a dog in our garden"
for temperature in (0.5, 2.5, 4.0):
    for seed in (0, 1):
        print(f"T = {temperature}, draw {seed}: {translate_by_lot(sentence, temperature, 0.9, seed)}")

# %% [markdown]
# Same memory, different sentences. One hopes for two sentences with the same meaning, one paraphrase of the other. A
# model that was trained on one right answer for each source has none to offer: its second choices are mistakes. Drawing
# shows what a model believes, no more.
#
# ## 6 · The cache
#
# Look again at the loop. At step $t$ the model gets $t$ positions, and it computes all of them anew, although only the
# last one is new. How much work is that? Count the scores $q \cdot k$ of one attention head:
#
# - **without a cache**, at step $t$ every one of $t$ positions is scored against every one: $t \cdot t$ scores (the
#   causal mask comes afterwards and saves none of them);
# - **with a cache**, only the new position asks. It still looks at all $t$ keys, but those of the past are not computed
#   again: $1 \cdot t$ scores.
#
# $$\text{without: } \sum_{t=1}^{n} t^2 \qquad\qquad \text{with: } \sum_{t=1}^{n} t$$
#
# {{exercise count_scores}}


# %% exercise count_scores
def count_scores(n: int, use_cache: bool) -> int:
    """How many scores q·k one head computes while n tokens are written, one after the other.

    To write token t (t = 1 … n) there are t positions: BOS and the t - 1 tokens before it.
    """
    ### BEGIN SOLUTION
    total = 0
    for t in range(1, n + 1):
        queries = 1 if use_cache else t
        total += queries * t
    return total
    ### END SOLUTION


# %% check count_scores
check(count_scores)

# %%
print(f"{'n':>5} {'no cache':>12} {'n³/3':>12} {'cache':>9} {'n²/2':>9} {'RNN':>5}")
for n in (16, 64, 256, 1024):
    without, with_cache = reference.count_scores(n, False), reference.count_scores(n, True)
    print(f"{n:>5} {without:>12,} {n**3 / 3:>12,.0f} {with_cache:>9,} {n**2 / 2:>9,.0f} {n:>5}")

# %% [markdown]
# For 64 tokens: 89,440 scores without a cache, 2,080 with one. (The last column counts the steps of a recurrent
# network; we come to it in section 7.)
#
# > **Spot the mistake.** "To write the next token, a Transformer is given the whole text so far. Attention is
# > quadratic, so the cost of writing $n$ tokens grows with $n^2$."
#
# <details><summary>What is wrong with it?</summary>
#
# If the whole text is given again at every step, *each step* is quadratic and the sum over all steps is cubic, about
# $n^3/3$. Quadratic in total, about $n^2/2$, is what it costs *with* a cache, when only the newest token is given.
#
# </details>
#
# ### Keys and values can be kept
#
# Why is it allowed to keep them? Because of the causal mask. Position 3 never sees position 4, so nothing about
# position 3 changes when token 4 arrives: its key, its value and its output stay what they were. The translator's
# outputs for a prefix of 4 tokens, and for the same prefix with one more:

# %%
target = french.encode("le petit chat noir voit un chien".split())
given = torch.cat([torch.tensor([BOS]), target])[None]  # (1, 9)
memory = model.encode(source)
short, longer = (model.decode(given[:, :n], memory, source) for n in (4, 5))  # (1, 4, vocab), (1, 5, vocab)
print(f"largest difference in the first four positions: {(longer[:, :4] - short).abs().max():.6f}")

# %% [markdown]
# None (another machine may show a rounding error). The *queries* of old positions are not needed again either, since
# nobody asks for their outputs any more. So we keep keys and values: the **KV cache**.
#
# In code the cache is an argument that goes in and comes out: `output, cache = attention(piece, cache)`. Be wary of
# functions that accept a `cache` and never look at it: nothing complains, each piece just sees itself alone.
#
# A piece can be more than one token: a prompt comes in all at once, then the answer token by token. Then the mask is no
# longer square. The queries are the *last* rows of the big triangle:

# %% figure
fig, axes = plt.subplots(1, 3, figsize=(8.5, 2.7), width_ratios=[2.6, 5.2, 7])
for ax, (new, seen) in zip(axes, ((2, 2), (3, 5), (2, 7))):
    mask = torch.tril(torch.ones(new, seen), diagonal=seen - new)
    show_matrix(
        mask,
        f"{new} new, {seen} seen",
        row_names=[str(i) for i in range(seen - new, seen)],
        limits=(0, 1),
        numbers=True,
        ax=ax,
    )
plt.show()

# %% [markdown]
# These are the masks for a sequence of seven that comes in pieces of 2, 3 and 2. Row 4 sees keys 0 to 4, in whichever
# piece it comes. The last new position always sees everything.
#
# Write causal self-attention with a cache. The results must be those of one causal attention over the whole sequence,
# however it is cut into pieces:
#
# $$\text{softmax}\Big(\frac{Q_{\text{new}}\,[K_{\text{old}};K_{\text{new}}]^\top}{\sqrt{d_k}} + \text{mask}\Big)
# \,[V_{\text{old}};V_{\text{new}}]$$
#
# $[\,;\,]$ puts the new rows below the old ones, and the mask adds 0 where looking is allowed and $-\infty$ elsewhere.
#
# `split_heads(x, num_heads)` gives `(batch, head, time, d_k)`, and `merge_heads` puts the heads together again. Do not
# change the old cache in place: a beam search continues one cache in several ways. The scores may be large, and
# gradients flow through all of it; there is no dropout. The four projections are given; `forward` is yours.
#
# {{exercise CachedAttention}}


# %% exercise CachedAttention
class CachedAttention(nn.Module):
    """Causal self-attention that is given a sequence in pieces, with the keys and values of the earlier ones."""

    def __init__(self, d_model: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, cache: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """
        x: (batch, new, d_model), the next piece. cache: what the piece before returned; None: a sequence begins.
        Returns: output (batch, new, d_model), and the new cache (keys, values), each (batch, head, seen, d_k).
        """
        ### BEGIN SOLUTION
        q = split_heads(self.w_q(x), self.num_heads)  # (batch, head, new, d_k)
        k = split_heads(self.w_k(x), self.num_heads)
        v = split_heads(self.w_v(x), self.num_heads)
        if cache is not None:
            old_k, old_v = cache
            k = torch.cat([old_k, k], dim=2)  # (batch, head, seen, d_k)
            v = torch.cat([old_v, v], dim=2)
        new, seen = q.shape[2], k.shape[2]
        past = torch.tril(torch.ones(new, seen, dtype=torch.bool), diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)  # (batch, head, new, d_k)
        return self.w_o(merge_heads(heads)), (k, v)
        ### END SOLUTION


# %% check CachedAttention
check(CachedAttention)

# %% [markdown]
# A whole decoder with a cache needs three more things, and `course_lib.decoding.cached` has them: one cache for each
# layer; the keys and values of the *source*, which never change and are computed once; and positions that go on
# counting. A new token that comes alone is still at position $t$, not at 0.
#
# First the most important test. The same tokens?

# %%
with_cache = generate(model, test_sources, BOS, EOS, max_len=20, use_cache=True)
without = generate(model, test_sources, BOS, EOS, max_len=20, use_cache=False)
print("same tokens:", torch.equal(with_cache, without))

# %% [markdown]
# And the time, for longer and longer texts. (An untrained model with a width of 128: what it writes does not matter. It
# is kept from ending.)

# %%
torch.manual_seed(0)
writer = (
    Transformer(100, 100, d_model=128, num_heads=4, d_ff=256, num_layers=2, max_len=600).eval().requires_grad_(False)
)
prompt = torch.randint(3, 100, (1, 12))


def write(next_logits, n: int) -> Tensor:
    """n tokens, greedily, without BOS, EOS and PAD among them."""
    ids = torch.tensor([[BOS]])
    for _ in range(n):
        best = 3 + next_logits(ids)[:, 3:].argmax(dim=-1)
        ids = torch.cat([ids, best[:, None]], dim=1)
    return ids


lengths = [32, 64, 128, 256] if FAST else [32, 64, 128, 256, 512]
seconds: dict[str, list[float]] = {"no cache": [], "cache": []}
for n in lengths:
    results = []
    for name, question in (("no cache", uncached), ("cache", cached)):
        start = time.perf_counter()
        results.append(write(question(writer, prompt), n))
        seconds[name].append(time.perf_counter() - start)
    assert torch.equal(*results)
ratios = [slow / fast for slow, fast in zip(seconds["no cache"], seconds["cache"])]

print("ratio:", {n: round(ratio, 1) for n, ratio in zip(lengths, ratios)})

# %% figure
fig, axes = plt.subplots(1, 2, figsize=(8.5, 3))
for name, style in (("no cache", "o-"), ("cache", "s-")):
    axes[0].plot(lengths, seconds[name], style, label=name)
axes[0].set(title="time to write n tokens", xlabel="n", ylabel="seconds", xscale="log", yscale="log")
axes[0].legend()
axes[1].plot(lengths, ratios, "^-", color=COLOURS[2])
axes[1].set(title="how many times faster with a cache", xlabel="n", ylabel="ratio", xscale="log", ylim=(0, None))
for ax in axes:
    ax.set_xticks(lengths, [str(n) for n in lengths])
    ax.minorticks_off()
plt.show()

# %% [markdown]
# The tokens are the same, and the ratio grows with the length. It is smaller than the ratio of scores (43 for 64
# tokens), since each step also has costs that do not depend on the length: embedding, feed-forward network, and the
# mere calling of so many small operations. The price is memory: two vectors of size `d_model` for each position and
# layer.
#
# ## 7 · What an RNN keeps
#
# The last column of the table above was the RNN: 64 tokens, 64 steps of constant cost. A recurrent network carries one
# state $h$ of fixed size and forgets the rest:
#
# $$h_t = a\, h_{t-1} + b\, x_t$$
#
# (In one dimension and without a non-linearity, to see the principle.) It trains one step after the other, where a
# Transformer trains all positions at once; but when it *writes* it is the cheaper of the two. What does it pay? Put the
# formula into itself, with $h_0 = 0$:
#
# $$h_3 = a\,(a\,(b\,x_1) + b\,x_2) + b\,x_3 = a^2 b\, x_1 + a\, b\, x_2 + b\, x_3$$
#
# In general, input $x_t$ is felt in the last state with the strength
#
# $$\frac{\partial h_n}{\partial x_t} = a^{\,n-t}\, b$$
#
# {{exercise rnn_influence}}


# %% exercise rnn_influence
def rnn_influence(n: int, a: float, b: float) -> Tensor:
    """How strongly each input is felt in the last state of h_t = a · h_(t-1) + b · x_t.

    Returns: (n,), the oldest input first: dh_n/dx_1, …, dh_n/dx_n.
    """
    ### BEGIN SOLUTION
    age = n - torch.arange(1, n + 1)  # (n,): how many steps ago each input came
    return b * torch.tensor(a, dtype=torch.float64) ** age
    ### END SOLUTION


# %% check rnn_influence
check(rnn_influence)

# %%
n = 60
fig, ax = plt.subplots(figsize=(9, 3.2))
for a, style in ((0.5, "-"), (0.8, "--"), (0.95, "-.")):
    ax.plot(range(n), reference.rnn_influence(n, a, 1.0).flip(0), style, label=f"RNN, a = {a}")
torch.manual_seed(0)
scores = torch.randn(n)
scores[-1] = 4.5  # the query fits the key of the very first token
ax.plot(range(n), scores.softmax(dim=-1), "o", markersize=3.5, color=COLOURS[3], label="attention weights (one query)")
ax.set(
    title="How strongly is an old token felt?",
    xlabel="how many steps ago it came",
    ylabel="influence",
    yscale="log",
    ylim=(1e-6, 1.5),
)
ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
plt.show()
print(f"a = 0.8, 50 steps ago: {0.8**50:.1e}")

# %% [markdown]
# The influence of an input fades **geometrically**, whatever it says. For attention, distance plays no part: the token
# from 59 steps ago has the largest weight in the picture, because its key fits the query. (Its scores are made up for
# the picture; the point is that nothing in the formula contains the distance.) That is what the cache is for: a
# Transformer can look everything up because it has thrown nothing away. It is also what the cache costs.
#
# | to write token $t$ | looks at | work at this step | memory |
# |---|---|---|---|
# | RNN | one state | constant | constant |
# | Transformer with cache | all $t$ positions | grows with $t$ | grows with $t$ |
# | Transformer without | all, computed anew | grows with $t^2$ | not kept |
#
# Real RNNs have gates and many dimensions that can hold on for longer; the principle stays. There are designs that
# want both: **RWKV** (Peng et al. 2023) is a language model that can be trained in parallel like a Transformer and
# writes like an RNN, with a state of constant size and decay factors that are learned.
#
# ## 8 · How good is it?
#
# A translation can be compared with a reference. **Exact match** asks whether all is right to the last word. It is
# honest and harsh: one wrong article counts as much as nonsense.
#
# **BLEU** (Papineni et al. 2002) gives partial credit. It asks how many runs of $n$ words (**n-grams**) of the
# translation also stand in the reference, for $n = 1, 2, 3, 4$.

# %%
hypothesis = "le chat voit le le chien".split()
wanted = "le petit chat voit le chien".split()
for n in (1, 2, 3, 4):
    found = ngrams(hypothesis, n)
    right = found & ngrams(wanted, n)  # & takes the smaller count of each
    print(f"n = {n}: {found.total()} n-grams, {right.total()} right:", {" ".join(gram): k for gram, k in right.items()})

# %% [markdown]
# *le* stands three times in the translation and twice in the reference, so it counts twice. This **clipping** is
# needed: otherwise "le le le le" would have a precision of 1. With the counts summed over **all sentences**,
#
# $$p_n = \frac{\text{matches of length } n}{\text{n-grams of length } n \text{ in the translations}}$$
#
# A translation could cheat by being very short: "le" alone has $p_1 = 1$. So there is a **brevity penalty**. With $r$
# tokens in all references and $h$ in all translations,
#
# $$\text{BLEU} = 100 \cdot \min\!\big(1,\, e^{\,1 - r/h}\big) \cdot \big(p_1\, p_2\, p_3\, p_4\big)^{1/4}$$
#
# It is 0 if one of the $p_n$ is 0. So it would be 0 for the sentence above, of which no four words in a row are right:
# BLEU is made for many sentences. `ngrams(tokens, n)` gives a Counter of the n-grams, and is yours to use.
#
# {{exercise bleu}}


# %% exercise bleu
def bleu(hypotheses: list[list[str]], references: list[list[str]]) -> float:
    """Corpus BLEU, between 0 and 100, with one reference for each sentence and without smoothing.

    hypotheses, references: lists of sentences, each a list of words; as many of one as of the other.
    """
    ### BEGIN SOLUTION
    log_precision = 0.0
    for n in (1, 2, 3, 4):
        matches, total = 0, 0
        for hypothesis, wanted in zip(hypotheses, references):
            found = ngrams(hypothesis, n)
            matches += (found & ngrams(wanted, n)).total()
            total += found.total()
        if matches == 0:
            return 0.0
        log_precision += math.log(matches / total) / 4
    ratio = sum(map(len, references)) / sum(map(len, hypotheses))
    return 100 * math.exp(min(0.0, 1 - ratio) + log_precision)
    ### END SOLUTION


# %% check bleu
check(bleu)

# %% [markdown]
# Two sets of sentences that the translator has never seen. In the second set each sentence has a pair of adjective and
# noun that never occurred together in training. For comparison: translators with noise on their weights, by greedy
# decoding.

# %%
data = make_data()
names, exact, blue = [], [], []
for name, pairs, translator in (
    ("new sentences", data.test, model),
    ("new combinations", data.unseen, model),
    ("new sentences, noise 0.3", data.test, spoiled(0, 0.3)),
    ("new sentences, noise 0.4", data.test, spoiled(0, 0.4)),
):
    pairs = pairs[:300]
    sources, _ = encode_pairs(pairs)
    hypotheses = [french.decode(row) for row in generate(translator, sources, BOS, EOS, max_len=20)]
    wanted = [list(pair.french) for pair in pairs]
    names.append(name)
    exact.append(100 * exact_match(hypotheses, wanted))
    blue.append(reference.bleu(hypotheses, wanted))
    print(f"{name:<26} exact {exact[-1]:5.1f} %   BLEU {blue[-1]:5.1f}")
    wrong = [i for i in range(len(pairs)) if hypotheses[i] != wanted[i]][:1]
    for i in wrong:
        print(f"    {' '.join(pairs[i].english)}\n    wanted: {spell(wanted[i])}\n    got:    {spell(hypotheses[i])}")

# %% figure
fig, ax = plt.subplots(figsize=(7.5, 2.8))
places = torch.arange(len(names))
ax.barh(places - 0.2, exact, height=0.38, label="exact match (%)")
ax.barh(places + 0.2, blue, height=0.38, label="BLEU")
ax.set(title="The same translations, two measures", xlabel="of 100", yticks=places, xlim=(0, 100))
ax.set_yticklabels(names)
ax.invert_yaxis()
ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
plt.show()

# %% [markdown]
# Where sentences are nearly right, BLEU is forgiving and exact match is not. In the last row BLEU says "three
# quarters", and yet more than half of the sentences have a mistake.
#
# Neither measure knows what a sentence *means*. Take all right translations that say *ne … pas*, and forget just that:

# %%
negated = [list(pair.french) for pair in data.test if "pas" in pair.french]
turned = [[word for word in words if word not in ("ne", "n'", "pas")] for words in negated]
print("right:    ", spell(negated[0]))
print("forgotten:", spell(turned[0]))
print(f"{len(turned)} sentences: exact {exact_match(turned, negated):.0%}, BLEU {reference.bleu(turned, negated):.1f}")

# %% [markdown]
# Every one of them now says the opposite, and BLEU still gives nearly half of its points for the words that are left. A
# right paraphrase, on the other hand, scores low, since its words are others. Report what you measured, and on what.
#
#
# **In your own words** (2 points, marked by hand). A friend says: "My chat model uses beam search with a beam of 50,
# because it finds the most probable answer. And I leave the KV cache off, so that the answers are exact." What do you
# reply, to both sentences?

# %% answer beam_of_fifty 2 [markdown]
# ### BEGIN SOLUTION
# The most probable answer is what the model finds most likely, not the best one; there is no truth to compare with.
# For open questions the most probable texts are short, dull and repetitive, so one draws with temperature and top-p
# instead; for translation a small beam may help a little, and a larger one costs more and adds nothing (or, without a
# length penalty, prefers answers that are too short). The KV cache changes nothing in the result: because of the
# causal mask the keys and values of earlier positions never change, so cached and uncached decoding give the same
# tokens (up to rounding). Leaving it off only makes the work cubic instead of quadratic.
# ### END SOLUTION

# %% [markdown]
# ## What you can do now
#
# - generate text token by token, and stop at the right time, also in a batch of sentences that end at different times;
# - find with beam search what greedy decoding misses, and say why it is not the truth that it finds;
# - draw with temperature, top-k and top-p, and explain what each of them cuts off;
# - write attention with a cache for pieces of any size, and test that it gives the same tokens;
# - count what decoding costs: $n^3/3$, $n^2/2$ or $n$;
# - say what an RNN forgets and what attention pays for not forgetting;
# - measure translations with exact match and BLEU, and read the numbers with doubt.
#
# **To read**
#
# - Vaswani et al. (2017), *Attention is all you need*, section 6.1: beam 4, length penalty α = 0.6.
# - Holtzman et al. (2020), *The curious case of neural text degeneration*: top-p, and why the most probable text is
#   dull.
# - Stahlberg and Byrne (2019), *On NMT search errors and model errors: cat got your tongue?*: the most probable
#   translation is often the empty one.
# - Papineni et al. (2002), *BLEU*; Post (2018), *A call for clarity in reporting BLEU scores*.
# - Peng et al. (2023), *RWKV: reinventing RNNs for the Transformer era*.
