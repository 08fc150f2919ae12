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
# A trained Transformer answers one question: *how likely is each token as the next one?* The rest is {{term decoding}}.
# You will write {{term greedy decoding}}, {{term beam search}} and {{term sampling}}, make them fast with a
# {{term cache}}, and run them on two models: the translator, which is nearly perfect, and the one that reads words
# aloud, which is not.

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

from course_lib import check, hint, solution, yours
from course_lib import decoding as reference
from course_lib import pronunciation as sounds
from course_lib.decoding import cached, exact_match, generate, ngrams, uncached
from course_lib.grammar import make_data, spell
from course_lib.interactive import beam_tree, next_token_filters, recorded_beam
from course_lib.multi_head_attention import merge_heads, split_heads
from course_lib.plotting import COLOURS, show_map, show_matrix, use_course_style
from course_lib.progress_bar import bar
from course_lib.settings import course_device
from course_lib.transformer import Transformer
from course_lib.translation import (
    BOS,
    EOS,
    PAD,
    encode_pairs,
    english_vocabulary,
    french_vocabulary,
    load_translator,
    usual_words,
)  # fmt: skip

use_course_style()
device = course_device()
FAST = os.environ.get("COURSE_FAST") == "1"  # fewer repetitions, the same code

# %% figure Where we are
show_map("09_decoding")

# %% [markdown]
# ## 1 · One token at a time
#
# `uncached(model, source)` wraps a model into the function `next_logits`: given the tokens so far, what are the
# {{term logits}} of the next one? The best token is appended, and we ask again. A model that is fed
# its own answers is called {{term autoregressive}}:
#
# $$y_t = \text{choose}\big(P(y \mid \text{source},\, y_1 \dots y_{t-1})\big)$$

# %%
translator = load_translator().to(device).requires_grad_(False)
english, french = english_vocabulary(), french_vocabulary()
source = english.encode("the cat is on the mat".split())[None].to(device)  # (1, source)
next_logits = uncached(translator, source)
prefix, words = torch.tensor([[BOS]]), []
for step in range(1, 10):
    probabilities = next_logits(prefix).softmax(dim=-1)[0]  # (vocab,)
    token = int(probabilities.argmax())
    print(f"step {step}: BOS {' '.join(words):<32} → {french.words[token]}  ({probabilities[token]:.4f})")
    words.append(french.words[token])
    prefix = torch.cat([prefix, torch.tensor([[token]])], dim=1)

# %% claims
claim("the running example is translated", words[:7] == "le chat est sur le tapis <eos>".split())

# %% [markdown]
# The sentence ends with {{term EOS}} at step 7, but the model does not stop there. **Stopping is the job of whoever
# runs it**: at EOS, or at a maximal length, because a model can forget to end. (A {{term language model}}, which
# continues a poem, does the same; its prefix begins with the prompt.)
#
# ## 2 · Greedy decoding of a batch
#
# Sentences of a {{term batch}} end at different times. The batch goes on until the *last* one has ended, and
# those that ended earlier are filled with {{term padding}}. In this course:
#
# - {{term BOS}} starts every prefix that the model sees, and is **not** part of the result;
# - EOS ends a sentence, and **is** part of the result; PAD fills the places after it;
# - `max_len` counts the tokens of the result, EOS included.
#
# Write greedy decoding. At each step and for each sentence, take
#
# $$y_t = \arg\max_y\, P(y \mid \text{source},\, y_1 \dots y_{t-1})$$
#
# `next_logits` wants the **whole** prefix each time, `(rows, time)` with BOS first, and returns `(rows, vocab)`.
#
# {{exercise greedy_decode}}


# %% exercise greedy_decode
def greedy_decode(next_logits, rows: int, bos_id: int, eos_id: int, pad_id: int, max_len: int) -> Tensor:
    """Take the best token, again and again, for `rows` sentences at once.

    next_logits: a function; given prefixes (rows, time), BOS first, it returns logits (rows, vocab).
    Stops when every sentence has had its EOS, or when there are max_len tokens. Nothing but EOS ends a sentence.
    Returns: (rows, time) token ids with time ≤ max_len, without BOS, with EOS, pad_id in the places after EOS.
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


# %% [markdown]
# Now yours drives a model that makes real mistakes: spelling to sound, on new words.

# %%
pronouncer = sounds.load_pronouncer().to(device).requires_grad_(False)
own_greedy = yours("greedy_decode", greedy_decode)
test = sounds.make_dictionary().test[: 60 if FAST else 300]
spellings = [entry.word for entry in test]
letters = sounds.encode_words(spellings).to(device)  # (word, letter)
rows = own_greedy(cached(pronouncer, letters), len(letters), BOS, EOS, PAD, sounds.MAX_SOUNDS)
phonemes = sounds.phoneme_vocabulary()
greedy = [" ".join(phonemes.decode(row)) for row in rows]
print(f"{sounds.word_accuracy(greedy, test):.1%} of {len(test)} new words are right to the last sound")

# %% claims
claim("the pronouncer is far from perfect", 0.45 < sounds.word_accuracy(greedy, test) < 0.75)

# %% figure The first words of the batch: sounds, EOS, padding
shown = rows[:6, :13]
kind = 2 * (shown == EOS).float() + (shown == PAD).float()
ax = show_matrix(
    kind, "sounds (dark), EOS (yellow), padding (grey)", rows="word", columns="step", row_names=spellings[:6],
    column_names=[str(step) for step in range(1, shown.shape[1] + 1)], numbers=False, limits=(0, 2),
)  # fmt: skip
for i, row in enumerate(shown.tolist()):
    for j, token in enumerate(row):
        text = {PAD: "", EOS: "EOS"}.get(token, phonemes.words[token])
        ax.text(j, i, text, ha="center", va="center", fontsize=8, color="black" if token == EOS else "white")
ax.figure.set_size_inches(9, 2.8)
plt.show()

# %% [markdown]
# ## 3 · The best word may lead into a bad sentence
#
# Greedy decoding never looks back. Here is a toy model with six tokens. After *I* it is unsure; after *a* it is nearly
# certain of *student*.

# %% figure Two steps of the toy
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


fig, ax = plt.subplots(figsize=(8, 3.2))
places = {"I": 0.78, "a": 0.14}
ends = {"I": {"am": 0.98, "student": 0.78, "a": 0.58}, "a": {"student": 0.30, "am": 0.14, "I": -0.02}}
for word, height in places.items():
    first, colour = TOY["BOS"][word], COLOURS[0] if word == "I" else COLOURS[1]
    ax.plot([0.13, 0.94], [0.5, height], color=colour, linewidth=8 * first)
    ax.text(0.5, (0.5 + height) / 2 + 0.07, f"{first:.2f}", ha="center")
    ax.text(1, height, word, ha="center", va="center", fontweight="bold")
    for following, end in ends[word].items():
        p = TOY[word][following]
        chosen = following == max(TOY[word], key=TOY[word].get)
        ax.plot([1.06, 1.94], [height, end], color=colour if chosen else "#999999", linewidth=max(0.8, 8 * first * p))
        ax.text(2.0, end, following, va="center", fontweight="bold" if chosen else "normal")
        ax.text(2.35, end, f"{first:.2f} · {p:.2f} = {first * p:.3f}", va="center")
ax.text(0, 0.5, "BOS", ha="center", va="center", fontweight="bold")
ax.text(3.0, 0.98, "← greedy", va="center", color=COLOURS[0])
ax.text(3.0, 0.30, "← the best", va="center", color=COLOURS[1])
ax.set(title="The thicker a line, the more likely its sentence", xlim=(-0.15, 3.4), ylim=(-0.1, 1.08))
ax.set(xlabel="step", xticks=[0, 1, 2], yticks=[])
ax.spines["left"].set_visible(False)
plt.show()

# %% claims
bos, eos = TOKENS.index("BOS"), TOKENS.index("EOS")
found = {size: reference.beam_search(toy_logits, size, bos, eos, 5, 0.0) for size in (1, 2)}
named = {size: ([TOKENS[i] for i in ids], math.exp(score)) for size, (ids, score) in found.items()}
claim("greedy gets I am, with 0.20", named[1][0] == ["I", "am", "EOS"] and abs(named[1][1] - 0.20) < 1e-4)
claim(
    "a beam of 2 gets a student, with 0.36", named[2][0] == ["a", "student", "EOS"] and abs(named[2][1] - 0.36) < 1e-4
)

# %% [markdown]
# Greedy gets 0.20, and there is a sentence with 0.36. Nobody can try all $V^n$ sentences. Beam search
# keeps the $B$ best prefixes instead of one:
#
# 1. continue each of the $B$ prefixes with each of the $V$ tokens: $B \cdot V$ candidates;
# 2. keep the $B$ best of *all* of them, with EOS or without; one prefix may have several children among these, another
#    none;
# 3. set aside those that end with EOS; the others go on.
#
# On the toy with $B = 2$: round 1 keeps *I* (0.50) and *a* (0.40); round 2 *a student* (0.36) and *I am* (0.20), not
# *I student* (0.175); in round 3 both end, and *a student* wins. A product of many small factors underflows to 0, so we
# add logarithms: $\log P(y) = \sum_t \log P(y_t \mid y_1 \dots y_{t-1})$.
#
# Each further token multiplies by a number below 1, so a search for the largest total prefers sentences that end early.
# The usual cure is to divide by a power of the length; $\alpha = 0$ changes nothing, $\alpha = 1$ takes the mean per
# token:
#
# $$\text{score}(y) = \frac{\log P(y)}{\text{length}^{\,\alpha}}$$
#
# Now write it, for one sentence:
#
# - Start with one prefix, BOS, whose total is 0.
# - In each round, keep the best `beam_size` candidates **by total log-probability**, however many have finished.
# - Of these, those that end with EOS are finished. When there are `max_len` tokens, all are: what has no EOS by then
#   counts as it stands. The others go on.
# - When none goes on, the finished sentence with the best score wins. `length` counts its tokens, EOS included.
#   (Libraries can return several; there `top_beams` says how many.)
#
# Your `topk` runs over the flattened `(beam, vocab)` candidates. A place in it is `parent * vocab_size + token`: `//`
# and `%` take it apart.
#
# {{exercise beam_search}}


# %% exercise beam_search
def beam_search(
    next_logits, beam_size: int, bos_id: int, eos_id: int, max_len: int, alpha: float
) -> tuple[list[int], float]:
    """Keep the `beam_size` best candidates of each round, with EOS or without; of these, those without EOS go on.

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
# Greedy decoding mispronounces *renegades*. Step through a beam of 3:

# %% figure A beam search, round by round
word = "renegades"
beam = recorded_beam(
    uncached(pronouncer, sounds.encode_words([word]).to(device)), phonemes.words, 3, BOS, EOS, sounds.MAX_SOUNDS, 0.0
)
print("greedy:", sounds.pronounce(pronouncer, [word])[0])
beam_tree(beam)

# %% claims
finished = [h for step in beam.steps for h in step if h.state == "finished"]
best = " ".join(max(finished, key=lambda h: h.score).tokens[:-1])
claim(
    "greedy says R IY …, the beam R EH …",
    sounds.pronounce(pronouncer, [word])[0].startswith("R IY") and best.startswith("R EH"),
)

# %% [markdown]
# At the second sound IY is likelier than EH; only the rest shows that EH was better.
#
# How often does that help? A shortcut saves half of the work: if greedy's word has more than half of the probability,
# no other can have more. So your beam of 4 runs only on the unsure words (for α = 1, an approximation).

# %% figure Greedy against your beam of 4 on new words
own_beam = yours("beam_search", beam_search)
confidence = sounds.log_probability(pronouncer, spellings, greedy).sum(dim=1).exp()  # of whole words
unsure = [i for i in range(len(test)) if confidence[i] <= 0.5]
print(f"{len(unsure)} of {len(test)} words are unsure.   greedy: {sounds.word_accuracy(greedy, test):.1%} right")
searched = {}
for alpha in (0.0, 1.0):
    said = list(greedy)
    for i in bar(unsure, f"beam search, α = {alpha:g}"):
        next_logits = uncached(pronouncer, sounds.encode_words([spellings[i]]).to(device))
        said[i] = " ".join(phonemes.decode(own_beam(next_logits, 4, BOS, EOS, sounds.MAX_SOUNDS, alpha)[0]))
    searched[alpha] = said
    length = sum(len(each.split()) for each in said) / len(said)
    print(f"beam of 4, α = {alpha:g}: {sounds.word_accuracy(said, test):.1%} right, {length:.2f} sounds per word")
changed = [i for i in unsure if searched[0.0][i] != greedy[i]]
was = [sounds.is_right(greedy[i], test[i]) for i in changed]
now = [sounds.is_right(searched[0.0][i], test[i]) for i in changed]
became_right = sum(after and not before for before, after in zip(was, now))
became_wrong = sum(before and not after for before, after in zip(was, now))
print(f"\nα = 0: {len(changed)} words change, {became_right} become right and {became_wrong} wrong. Some of them:")
for i in changed[:6]:
    mark = "right" if sounds.is_right(searched[0.0][i], test[i]) else "wrong"
    print(f"    {spellings[i]:16} {greedy[i]:34} → {searched[0.0][i]:34} {mark}")

# %% claims
claim("the shortcut saves half of the work", len(unsure) < 0.55 * len(test))
claim("few words change", len(changed) < 0.15 * len(test))
if not FAST:
    gain = sounds.word_accuracy(searched[0.0], test) - sounds.word_accuracy(greedy, test)
    claim("more become right than wrong", became_right > became_wrong)
    claim("the gain is small", 0 < gain < 0.05)
lengths = [sum(len(each.split()) for each in searched[alpha]) for alpha in (0.0, 1.0)]
claim("with α = 1 words are at least as long", lengths[1] >= lengths[0])

# %% [markdown]
# Few words change, more of them become right than wrong, and the gain is small. (Vaswani et al. used a beam of 4 and
# α = 0.6. With α = 1 our answers become no shorter.)
#
# **Spot the mistake.** "Beam search tries several sentences and keeps the one with fewer errors." Nobody knows the
# errors: it keeps what the *model* finds more probable. Where the model is wrong, the beam finds wrong answers more
# reliably.
#
# ## 4 · Sampling
#
# A story has many good continuations, and the most likely one is often dull. Sampling draws the next token with the
# model's probabilities, made sharper or flatter by a {{term temperature}} $T$:
#
# $$p_i = \frac{e^{z_i / T}}{\sum_j e^{z_j / T}}$$
#
# ($z$: the logits.) $T < 1$ sharpens, $T > 1$ flattens; $T \to 0$ is greedy decoding. Try it: what follows R, the
# first sound of *renegades*? (Section 5 explains the other two sliders.)

# %% figure What comes next? Temperature, top-k and top-p
prefix = torch.tensor([[BOS, phonemes.ids["R"]]])
logits = uncached(pronouncer, sounds.encode_words(["renegades"]).to(device))(prefix)[0]  # (vocab,)
next_token_filters(phonemes.words, logits)

# %% [markdown]
# A computer samples with a random number $u$ between 0 and 1. Lay the probabilities end to end on a line of length 1,
# token 0 first. The token whose piece contains $u$ is taken:
#
# $$\text{token} = \min\Big\{\, i \;:\; \sum_{j \le i} p_j > u \,\Big\}$$

# %% figure The running sum of the probabilities
p = torch.tensor([2.0, 1.0, 0.5, 0.0, -1.0]).softmax(dim=-1)
ends_at = p.cumsum(dim=-1)
fig, ax = plt.subplots(figsize=(8, 1.9))
left = 0.0
for token, (width, right) in enumerate(zip(p.tolist(), ends_at.tolist())):
    ax.barh(0, width, left=left, color=COLOURS[token], edgecolor="white", height=0.6)
    ax.text(left + width / 2, 0, str(token), ha="center", va="center", color="white" if token < 3 else "black")
    left = right
ax.plot([0.7, 0.7], [-0.45, 0.45], color="black", linewidth=2)
ax.text(0.7, 0.5, "u = 0.7 gives token 1", ha="center")
ax.set(title="The running sum of the probabilities", xlabel="u", yticks=[], xlim=(0, 1), ylim=(-0.45, 0.85))
ax.set_xticks([0, *[round(e, 2) for e in ends_at[:3].tolist()], 1])
ax.spines["left"].set_visible(False)
plt.show()

# %% claims
claim("u = 0.7 gives token 1", int((ends_at <= 0.7).sum()) == 1)

# %% [markdown]
# Your function gets $u$ from outside, so that it can be checked. At temperature 0 return the best token.
#
# {{exercise sample}}


# %% exercise sample
def sample(logits: Tensor, temperature: float, u: Tensor) -> Tensor:
    """Sample one token for each row, with the probabilities softmax(logits / temperature).

    logits: (batch, vocab), 1000 and -inf too; temperature: 0 or more, 0 means the best token; u: (batch,), numbers in
    [0, 1).
    The token sampled is the first whose running sum of probabilities, in the order of the ids, is greater than u.
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
# Your `sample` now says a word many times. The encoder's {{term memory}} of *tomato* is the same each time, and yet two
# samples can be two different pronunciations, as two samples of a translation can be two paraphrases.

# %%
own_sample = yours("sample", sample)
number, sampled = (50 if FAST else 400), {}
torch.manual_seed(0)
for T in (0.5, 1.0, 2.0):
    choose = lambda logits, T=T: own_sample(logits, T, torch.rand(len(logits)))
    sampled[T] = Counter(sounds.draw_pronunciations(pronouncer, "tomato", number, choose))
    print(f"T = {T}: {len(sampled[T])} different pronunciations in {number} samples")
    for said, count in sampled[T].most_common(3):
        p = sounds.log_probability(pronouncer, ["tomato"], [said]).sum().exp()
        print(f"    {sounds.respell(said):22} share {count / number:.2f}   the model's probability {p:.2f}")

# %% claims
for said, count in sampled[1.0].most_common(3):
    p = sounds.log_probability(pronouncer, ["tomato"], [said]).sum().exp().item()
    claim("at T = 1 the shares are the model's probabilities", abs(count / number - p) < (0.25 if FAST else 0.1))
claim("a higher temperature gives more variety", len(sampled[0.5]) <= len(sampled[1.0]) < len(sampled[2.0]))

# %% [markdown]
# At $T = 1$ the shares are the model's probabilities. The same with text, from a model that counts which character
# followed each **sliding window** of four: after each sample the window moves on, and what falls out of it is
# forgotten. (A Transformer with a window of 256 characters: `next_logits(ids[:, -256:])`.)

# %% figure Text at four temperatures, from a sliding window
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
        written += characters[int(own_sample(character_logits(written[-WINDOW:]), T, torch.rand(1)))]
    print(f"T = {T}:  {written}")

# %% [markdown]
# ## 5 · Cutting off the tail
#
# Almost all of a large vocabulary is nonsense at a given place. If these tokens together have a probability of 0.05,
# then 100 samples contain at least one of them with probability $1 - 0.95^{100} = 0.994$, and the model has to go on
# from there. So cut off the tail first. {{term top-k|Top-k}} keeps the k largest logits and sets the others to
# $-\infty$:
#
# $$z_i' = \begin{cases} z_i & \text{if } z_i \text{ is among the } k \text{ largest of its row}\\
# -\infty & \text{otherwise}\end{cases}$$
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


# %% [markdown]
# No single k fits both a sure and an unsure model. {{term top-p|Top-p}} (Holtzman et al. 2020) fixes the probability
# instead: sort the tokens, most likely first, and keep the fewest that together reach $p$. A token stays if the more
# likely ones together have *less* than $p$:
#
# $$\text{keep } i \iff \sum_{j \,:\, p_j > p_i} p_j < p$$
#
# By hand: probabilities 0.1, 0.45, 0.15, 0.3 and $p = 0.7$. In decreasing order they are 0.45, 0.3, 0.15, 0.1, with 0,
# 0.45, 0.75, 0.9 before them: tokens 1 and 3 stay. After sorting, each logit has to return to its own place.
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


# %% figure Top-k and top-p on a sure and an unsure model
own_top_k, own_top_p = yours("top_k_filter", top_k_filter), yours("top_p_filter", top_p_filter)
sure = torch.tensor([0.80, 0.09, 0.05, 0.03, 0.01, 0.01, 0.005, 0.005]).log()
unsure_one = torch.tensor([0.17, 0.16, 0.15, 0.14, 0.13, 0.12, 0.08, 0.05]).log()
fig, axes = plt.subplots(1, 4, figsize=(11, 2.6), sharey=True)
kept = []
panels = [(sure, "a sure model"), (unsure_one, "an unsure model")]
for ax, (logits, name, cut, filtered) in zip(
    axes,
    [(z, name, "k = 3", own_top_k(z, 3)) for z, name in panels]
    + [(z, name, "p = 0.85", own_top_p(z, 0.85)) for z, name in panels],
):
    kept.append(int(filtered.isfinite().sum()))
    ax.bar(range(8), logits.softmax(dim=-1), color=COLOURS[4], alpha=0.5, label="before")
    ax.bar(range(8), filtered.softmax(dim=-1), color=COLOURS[0], width=0.45, label="after")
    ax.set(title=f"{name}, {cut}", xlabel="token", xticks=range(8), ylim=(0, 1))
axes[0].set_ylabel("probability")
axes[0].legend()
plt.show()

# %% claims
claim("top-k keeps three each time, top-p two and six", kept == [3, 3, 2, 6])
by_hand = reference.top_p_filter(torch.tensor([0.1, 0.45, 0.15, 0.3]).log(), 0.7)
claim("by hand, tokens 1 and 3 stay", by_hand.isfinite().tolist() == [False, True, False, True])
claim("100 samples contain a token of the tail with probability 0.994", abs(1 - 0.95**100 - 0.994) < 5e-4)

# %% [markdown]
# Top-k keeps three each time; top-p adapts: two and six. Now one sample of each test word:


# %% figure Sampled pronunciations of new words, with and without a tail
def say(choose) -> list[str]:
    """Each word once; `choose` turns logits (rows, vocab) into tokens (rows,)."""
    torch.manual_seed(0)
    next_logits = cached(pronouncer, letters)
    chosen = lambda ids: F.one_hot(choose(next_logits(ids)), len(phonemes))
    rows = own_greedy(chosen, len(letters), BOS, EOS, PAD, sounds.MAX_SOUNDS)
    return [" ".join(phonemes.decode(row)) for row in rows]


draw = lambda logits, T=1.0: own_sample(logits, T, torch.rand(len(logits)))
ways = {
    "greedy": lambda logits: logits.argmax(dim=-1),
    "T = 2": lambda logits: draw(logits, 2.0),
    "T = 1": draw,
    "T = 0.5": lambda logits: draw(logits, 0.5),
    "T = 1, top-k 3": lambda logits: draw(own_top_k(logits, 3)),
    "T = 1, top-p 0.8": lambda logits: draw(own_top_p(logits, 0.8)),
}
right, differ = {}, {}
for name, choose in ways.items():
    said = say(choose)
    right[name] = sounds.word_accuracy(said, test)
    errors = sounds.phoneme_error_rate(said, test)
    differ[name] = sum(a != b for a, b in zip(said, greedy)) / len(test)
    print(
        f"{name:18} {right[name]:6.1%} right   {errors:6.1%} of sounds wrong   {differ[name]:6.1%} differ from greedy"
    )

# %% claims
claim("the tail costs: T = 2 is far worse than T = 1", right["T = 2"] < right["T = 1"] - 0.1)
claim("without the tail they still differ", 0.1 < differ["T = 1, top-p 0.8"] < differ["T = 1"])
claim("cutting the tail helps", right["T = 1, top-p 0.8"] > right["T = 1"] - (0.05 if FAST else 0.0))

# %% [markdown]
# Without the tail the samples are more often right, and they still differ.
#
# ## 6 · The cache
#
# At step $t$ the model computes all $t$ positions anew, although only the last one is new. Count the scores $q \cdot k$
# of one attention head:
#
# - **without a cache**, every one of $t$ positions is scored against every one (the {{term causal}} mask saves none of
#   them);
# - **with a KV cache**, only the new position asks. It still looks at all $t$ keys.
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
own_count = yours("count_scores", count_scores)
for n in (16, 64, 256, 1024):
    print(f"n = {n:4}   no cache {own_count(n, False):>11,} ≈ n³/3   cache {own_count(n, True):>7,} ≈ n²/2   RNN {n:4}")

# %% claims
claim("without a cache it is about n³/3", abs(own_count(1024, False) / (1024**3 / 3) - 1) < 0.01)
claim("with one it is about n²/2", abs(own_count(1024, True) / (1024**2 / 2) - 1) < 0.01)

# %% [markdown]
# (RNN: see section 7.) **Spot the mistake.** "A Transformer is given the whole text so far to write the next token.
# Attention is quadratic, so writing $n$ tokens costs $n^2$." Without a cache *each step* is quadratic, and the sum is
# cubic.
#
# Why may keys and values be kept? Because of the causal mask: position 3 never sees position 4, so nothing about
# position 3 changes when token 4 arrives.

# %%
given = torch.cat([torch.tensor([BOS]), french.encode("le chat est sur le tapis".split())])[None].to(device)  # (1, 8)
memory = translator.encode(source)
short, longer = (translator.decode(given[:, :n], memory, source) for n in (4, 5))  # (1, 4, vocab), (1, 5, vocab)
print(f"largest difference in the first four positions: {(longer[:, :4] - short).abs().max():.6f}")

# %% claims
claim("nothing changes in the first four positions", (longer[:, :4] - short).abs().max() < 1e-4)

# %% [markdown]
# In code the cache goes in and comes out: `output, cache = attention(piece, cache)`. A piece can be more than one
# token: a prompt comes all at once, the answer token by token. Then the queries are the *last* rows of the big
# triangle:

# %% figure The masks of a sequence of seven that comes in pieces of 2, 3 and 2
fig, axes = plt.subplots(1, 3, figsize=(8.5, 2.7), width_ratios=[2.6, 5.2, 7])
for ax, (new, seen) in zip(axes, ((2, 2), (3, 5), (2, 7))):
    mask = torch.tril(torch.ones(new, seen), diagonal=seen - new)
    names = [str(i) for i in range(seen - new, seen)]
    show_matrix(mask, f"{new} new, {seen} seen", row_names=names, limits=(0, 1), numbers=True, ax=ax)
plt.show()

# %% [markdown]
# Write causal self-attention with a cache. The results must be those of one causal attention over the whole sequence,
# however it is cut into pieces:
#
# $$\text{softmax}\Big(\frac{Q_{\text{new}}\,[K_{\text{old}};K_{\text{new}}]^\top}{\sqrt{d_k}} + \text{mask}\Big)
# \,[V_{\text{old}};V_{\text{new}}]$$
#
# $[\,;\,]$ puts the new rows below the old ones; the mask adds 0 where looking is allowed and $-\infty$ elsewhere.
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
        everything = torch.ones(new, seen, dtype=torch.bool, device=x.device)
        past = torch.tril(everything, diagonal=seen - new)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=past)  # (batch, head, new, d_k)
        return self.w_o(merge_heads(heads)), (k, v)
        ### END SOLUTION


# %% check CachedAttention
check(CachedAttention)


# %% [markdown]
# Now your `CachedAttention`, with the pronouncer's weights, decodes the test words. Are the tokens the same? And how
# much faster is a cache? (Measured on an untrained model that never ends.)

# %% figure The same tokens, and the time
own_attention = yours("CachedAttention", CachedAttention)
with_yours = own_greedy(cached(pronouncer, letters, own_attention), len(letters), BOS, EOS, PAD, sounds.MAX_SOUNDS)
without = own_greedy(uncached(pronouncer, letters), len(letters), BOS, EOS, PAD, sounds.MAX_SOUNDS)
same = torch.equal(with_yours, without)
print("same tokens with your cache and without:", same)

torch.manual_seed(0)
writer = Transformer(100, 100, d_model=128, num_heads=4, d_ff=256, num_layers=2, max_len=600)
writer = writer.to(device).eval().requires_grad_(False)
prompt = torch.randint(3, 100, (1, 12)).to(device)


def write(next_logits, n: int) -> Tensor:
    """n tokens, greedily, without BOS, EOS and PAD among them."""
    ids = torch.tensor([[BOS]])
    for _ in range(n):
        best = 3 + next_logits(ids)[:, 3:].argmax(dim=-1)
        ids = torch.cat([ids, best[:, None]], dim=1)
    return ids


lengths = [32, 64, 128] if FAST else [32, 64, 128, 256]
seconds: dict[str, list[float]] = {"no cache": [], "cache": []}
for n in bar(lengths, "writing"):
    for name, question in (("no cache", uncached), ("cache", cached)):
        start = time.perf_counter()
        write(question(writer, prompt), n)
        seconds[name].append(time.perf_counter() - start)
fig, ax = plt.subplots(figsize=(6.5, 2.8))
for name, style in (("no cache", "o-"), ("cache", "s-")):
    ax.plot(lengths, seconds[name], style, label=name)
ax.set(title="Time to write n tokens", xlabel="n", ylabel="seconds", xticks=lengths, ylim=(0, None))
ax.legend()
plt.show()

# %% claims
claim("the cache changes no token", same)

# %% [markdown]
# The tokens are the same. The price of the cache is memory: two vectors of size `d_model` per position and layer.
#
# ## 7 · What an RNN keeps
#
# A {{term recurrent network}} carries one state $h$ of fixed size. In one dimension and without a non-linearity:
#
# $$h_t = a\, h_{t-1} + b\, x_t$$
#
# It trains one step after the other, where a Transformer trains all positions at once; but each step of *writing* costs
# the same. Put the formula into itself, with $h_0 = 0$:
#
# $$h_3 = a^2 b\, x_1 + a\, b\, x_2 + b\, x_3 \qquad\qquad \frac{\partial h_n}{\partial x_t} = a^{\,n-t}\, b$$
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


# %% figure How strongly is an old token felt?
own_influence = yours("rnn_influence", rnn_influence)
n = 60
fig, ax = plt.subplots(figsize=(9, 3))
for a, style in ((0.5, "-"), (0.8, "--"), (0.95, "-.")):
    ax.plot(range(n), torch.as_tensor(own_influence(n, a, 1.0)).flip(0), style, label=f"RNN, a = {a}")
torch.manual_seed(0)
scores = torch.randn(n)
scores[-1] = 4.5  # made up: the query fits the key of the very first token
ax.plot(range(n), scores.softmax(dim=-1), "o", markersize=3.5, color=COLOURS[3], label="attention weights, one query")
ax.set(title="How strongly is an old token felt?", xlabel="how many steps ago it came", ylabel="influence")
ax.set(yscale="log", ylim=(1e-6, 1.5))
ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
plt.show()

# %% [markdown]
# With $|a| < 1$ an input fades **geometrically**, whatever it says. For attention, distance plays no part: nothing has
# been thrown away, and the price is a cache that grows. **RWKV** (Peng et al. 2023) combines both: it trains in
# parallel like a Transformer and writes like an RNN, with a state of constant size.
#
# ## 8 · How good is it?
#
# **Exact match** asks whether everything is right to the last token: honest and harsh. {{term BLEU}} gives partial
# credit: how many runs of $n$ words (**n-grams**) of the translation also occur in the reference, for $n = 1, 2, 3, 4$?
# Each counts at most as often as the reference has it (**clipping**), or "le le le le" would have a precision of 1.
# With the counts summed over **all sentences**,
#
# $$p_n = \frac{\text{matches of length } n}{\text{n-grams of length } n \text{ in the translations}}$$
#
# A very short translation could cheat, so there is a **brevity penalty**. With $\ell_\text{ref}$ tokens in all
# references and $\ell_\text{out}$ in all translations,
#
# $$\text{BLEU} = 100 \cdot \min\!\big(1,\, e^{\,1 - \ell_\text{ref} / \ell_\text{out}}\big)
# \cdot \big(p_1\, p_2\, p_3\, p_4\big)^{1/4}$$
#
# It is 0 if one of the $p_n$ is 0. `ngrams(tokens, n)` gives a Counter of the n-grams, and `&` of two Counters takes
# the smaller count of each.
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


# %% figure The same answers, two measures
own_bleu = yours("bleu", bleu)
data = make_data()
pairs = data.test[: 100 if FAST else 300]
truth = [list(pair.french) for pair in pairs]
dictionary = usual_words(data.train[:5000])
results = generate(translator, encode_pairs(pairs)[0].to(device), BOS, EOS, max_len=20)
negated = [list(pair.french) for pair in data.test if "pas" in pair.french]
said_truth = [list(entry.pronunciations[0]) for entry in test]
measured = {}
for name, hypotheses, wanted in (
    ("translator", [french.decode(row) for row in results], truth),
    ("word for word", [[dictionary[word] for word in pair.english] for pair in pairs], truth),
    ("pronouncer, in sounds", [said.split() for said in greedy], said_truth),
    ("true, but without ne … pas", [[w for w in words if w not in ("ne", "n'", "pas")] for words in negated], negated),
):
    measured[name] = 100 * exact_match(hypotheses, wanted), own_bleu(hypotheses, wanted)
    print(f"{name:28} exact {measured[name][0]:5.1f} %   BLEU {measured[name][1]:5.1f}")

# %% claims
exact, common = measured["pronouncer, in sounds"]
claim("BLEU is kinder to answers that are nearly right", common > exact + 10)
claim("the opposite still gets nearly half", 30 < measured["true, but without ne … pas"][1] < 60)

# %% [markdown]
# BLEU is kinder to answers that are nearly right. It does not know what a sentence *means*: in the last row every
# sentence says the opposite, and still gets nearly half of the points.
#
# Does a model know when it is wrong? Its confidence in a word is the probability of the whole pronunciation. If it is
# calibrated ({{term calibration}}), then of the words said with confidence 0.7, 70 % are right.

# %% figure Confidence against accuracy, on real mistakes
judged = sounds.make_dictionary().test[: 300 if FAST else None]
names = [entry.word for entry in judged]
said = []
for start in bar(range(0, len(names), 300), "new words"):
    said += sounds.pronounce(pronouncer, names[start : start + 300])
confidence = sounds.log_probability(pronouncer, names, said).sum(dim=1).exp()
correct = torch.tensor([sounds.is_right(*each) for each in zip(said, judged)])
bins = (10 * confidence).long().clamp(max=9)
filled = [b for b in range(10) if (bins == b).sum() >= 5]
fig, ax = plt.subplots(figsize=(5, 3.4))
ax.plot([0, 1], [0, 1], color="grey", linestyle=":", label="calibrated")
places = [confidence[bins == b].mean().item() for b in filled]
shares = [correct[bins == b].float().mean().item() for b in filled]
ax.plot(places, shares, "o-", label="the pronouncer")
ax.set(title=f"{len(judged)} new words", xlabel="confidence", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1))
ax.legend()
plt.show()
error = sounds.calibration_error(confidence, correct)
print(f"mean confidence {confidence.mean():.3f}, right {correct.float().mean():.3f}, calibration error {error:.3f}")

# %% claims
claim("confidence rises with accuracy", shares[-1] > shares[0] + 0.4)
claim("the calibration error is small", error < (0.12 if FAST else 0.08))

# %% [markdown]
# Where it is unsure it is often wrong, and where it is sure it is mostly right: it is fairly well calibrated.
#
# {{question beam_of_fifty}}
#
# A friend says: "My chat model uses beam search with a beam of 50, because it finds the
# most probable answer. And I leave the KV cache off, so that the answers are exact." What do you reply to each
# sentence?

# %% answer beam_of_fifty 2 [markdown]
# ### BEGIN SOLUTION
# The most probable answer is what the model finds most likely, not the best one; there is no truth to compare with. For
# open questions the most probable texts are short, dull and repetitive, so one samples with temperature and top-p
# instead; for translation a small beam may help a little, and a larger one costs more and adds little (or, without a
# length penalty, prefers answers that are too short). (1 point.) The KV cache does not change the result: because of
# the causal mask the keys and values of earlier positions never change, so cached and uncached decoding give the same
# tokens (up to rounding). Leaving it off only makes the work cubic instead of quadratic. (1 point.)
#
# **Rubric**
#
# - 1 point: the most probable text is not the best one: dull, short or repetitive; what to do instead
# - 1 point: the cache changes no result, since earlier keys and values never change; it only saves work
# ### END SOLUTION

# %% [markdown]
# ## What you can do now
#
# Decode greedily, with a beam and by sampling; keep keys and values; say what an RNN forgets; judge answers by exact
# match, BLEU and calibration.
#
# **To read on**: Holtzman et al. (2020), *The Curious Case of Neural Text Degeneration* · Stahlberg and Byrne (2019),
# *On NMT Search Errors and Model Errors*.
