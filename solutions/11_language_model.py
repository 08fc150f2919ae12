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
# # 11 · Language models: a decoder that writes
#
# A {{term language model}} answers one question: *which token comes next?* That is enough to write, and enough to
# compress. Here you build a small GPT, train it for about three minutes on a text that is already on your computer, and
# measure in bits what it has learned.

# %% setup
import math
import os
from collections import Counter
from itertools import pairwise

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

from course_lib import check, docstrings, hint, solution, writing, yours
from course_lib import language_model as reference
from course_lib.decoding import sample, top_k_filter, top_p_filter
from course_lib.docstrings import ALPHABET, decode, encode
from course_lib.plotting import COLOURS, show_map, show_matrix, use_course_style
from course_lib.progress_bar import bar
from course_lib.settings import course_device
from course_lib.writing import LENGTH

use_course_style()
device = course_device()
FAST = os.environ.get("COURSE_FAST") == "1"  # for testing the notebook: the same cells, less text, fewer steps

# %% figure Where we are
show_map("11_language_model")

# %% [markdown]
# ## 1 · A text
#
# We need a long text that may be used freely and that everybody has. Python brings one: the *docstrings* of its
# standard library, more than a million characters of technical English, with examples in code. Nine modules of ten are
# for training. The others are **held out**: no model below is trained on them. Characters that a plain keyboard lacks
# are dropped, so that 96 remain.

# %%
corpus = docstrings.make_corpus(one_of=10 if FAST else 1)
train, held_out = encode(corpus.train), encode(corpus.held_out)  # (characters,) each
known_lines = docstrings.share_of_known_lines(corpus)
print(f"{len(train):,} characters to train with, {len(held_out):,} held out, {len(ALPHABET)} different ones")
print(f"{known_lines:.1%} of the held-out lines also occur in the training text\n")
print(corpus.held_out[:400])

# %% claims
claim("96 characters remain", len(ALPHABET) == 96)
claim("few held-out lines are known", known_lines < 0.05)
if not FAST:
    claim("more than a million characters", len(train) + len(held_out) > 1_000_000)

# %% [markdown]
# ## 2 · Prediction is compression
#
# A model gives a text $x_1 \dots x_n$ the probability
#
# $$P(x_1 \dots x_n) = \prod_t P(x_t \mid x_1 \dots x_{t-1})$$
#
# What is that good for? Suppose four symbols have the probabilities ½, ¼, ⅛, ⅛. The code words 0, 10, 110, 111 can be
# told apart without commas, and each has $-\log_2 p$ {{term bit|bits}}: 1, 2, 3, 3. No code needs fewer on average. So
# **the better a model predicts, the shorter its code**, and the length of a text's best code is
#
# $$-\log_2 P(x_1 \dots x_n) = \sum_t -\log_2 P(x_t \mid x_1 \dots x_{t-1})$$
#
# The simplest predictor counts. An {{term n-gram}} model looks at the last $n - 1$ tokens only: how often did each
# token $z$ follow them in the training text? With $C(\cdot)$ for counts and $V$ for the size of the
# {{term vocabulary}}:
#
# $$P(z \mid a \dots y) = \frac{C(a \dots y\,z) + s}{\sum_{v} C(a \dots y\,v) + s\,V}$$
#
# The smoothing $s > 0$ leaves something for what was never seen: a single probability of 0 would make the code of the
# whole text infinitely long.
#
# {{exercise ngram_model}}


# %% exercise ngram_model
def ngram_model(ids: Tensor, n: int, vocab_size: int, smoothing: float) -> Tensor:
    """The probability of each token after the n - 1 tokens before it, by counting all runs of n tokens of a text.

    ids: (number of ids,), whole numbers below vocab_size, at least n of them; n: 1 or more; smoothing: more than 0.
    Returns: a tensor with n axes of vocab_size each; entry [a, …, y, z] is P(z | a … y). For n = 1 there is no context:
    (vocab_size,), how likely each token is anywhere. After a context that never occurs, all are equally likely.
    """
    ### BEGIN SOLUTION
    counts = torch.zeros((vocab_size,) * n)
    runs = ids.unfold(dimension=0, size=n, step=1)  # (number of ids - n + 1, n)
    places = tuple(runs.T)  # one index for each axis
    counts.index_put_(places, torch.ones(len(runs)), accumulate=True)
    totals = counts.sum(dim=-1, keepdim=True)  # how often something follows each context
    return (counts + smoothing) / (totals + smoothing * vocab_size)
    ### END SOLUTION


# %% check ngram_model
check(ngram_model)

# %% figure A corner of your bigram table: what follows what?
own_ngrams = yours("ngram_model", ngram_model)
unigram, bigram = (own_ngrams(train, n, len(ALPHABET), smoothing=0.1) for n in (1, 2))
letters = [place for place in unigram.argsort(descending=True).tolist() if ALPHABET[place].islower()][:14]
rows = [ALPHABET.index("q"), *letters]
columns = [*letters, ALPHABET.index(" ")]
figure, ax = plt.subplots(figsize=(7.6, 5))
show_matrix(
    bigram[rows][:, columns], "P(next character | this character)", rows="this character", columns="next character",
    row_names=[ALPHABET[place] for place in rows], column_names=[*(ALPHABET[place] for place in letters), "␣"],
    numbers=False, colourbar=True, limits=(0, 1), ax=ax,
)  # fmt: skip
plt.show()

# %% claims
u_after_q = bigram[ALPHABET.index("q"), ALPHABET.index("u")].item()
claim("after q there is nearly always u", u_after_q > (0.5 if FAST else 0.85))

# %% [markdown]
# After *q* comes *u*, and little else in the table is as certain. Do these probabilities really make a code?
# **Arithmetic coding** divides the interval from 0 to 1 among all characters in proportion to their probabilities,
# keeps the piece of the character that comes next, divides that piece in the same way, and so on. Any number inside the
# last piece stands for the whole text, and it takes about $-\log_2 P$ bits to write one down. Anyone who has the same
# model can decode it:

# %%
sentence = encode("Return the number of items in the list.")


def coded(next_probabilities, name: str) -> tuple[str, float]:
    """The bits of the sentence after its first character, and the sum of -log2 p."""
    bits = writing.arithmetic_code(sentence, 1, next_probabilities)
    surprise = sum(-next_probabilities(sentence[:t])[sentence[t]].log2().item() for t in range(1, len(sentence)))
    back = decode(writing.arithmetic_decode(bits, sentence[:1], len(sentence), next_probabilities))
    print(f"{name:8} {len(bits):3} bits, sum of -log2 p {surprise:6.1f}   decoded: {back}   {bits[:20]}…")
    return bits, surprise


print(f"as it is {8 * len(sentence) - 8:3} bits, 8 for each character after the first")
by_unigram = coded(lambda so_far: unigram, "unigram")
by_bigram = coded(lambda so_far: bigram[so_far[-1]], "bigram")

# %% claims
for bits, surprise in (by_unigram, by_bigram):
    claim("the code is as long as the surprise, to two bits", abs(len(bits) - surprise) < 2.5)
claim("the bigram model needs fewer bits", len(by_bigram[0]) < len(by_unigram[0]) < 8 * (len(sentence) - 1))

# %% [markdown]
# The code comes within two bits of the sum. (Good compression programs work like this, with models of their own.)
#
# ## 3 · Bits per character
#
# To compare models on different texts, or with different tokens, count the bits per **character**. If token $i$ got the
# probability $p_i$ and stands for $\ell_i$ characters:
#
# $$\text{bits per character} = \frac{\sum_i -\log_2 p_i}{\sum_i \ell_i} \qquad\qquad \log_2 p = \frac{\ln p}{\ln 2}$$
#
# {{exercise bits_per_character}}


# %% exercise bits_per_character
def bits_per_character(log_probabilities: Tensor, lengths: Tensor) -> float:
    """How many bits a model needs for each character of a text, whatever its tokens are.

    log_probabilities: (tokens,), the natural logarithm of the probability that the model gave to each token of the
    text; lengths: (tokens,), whole numbers: how many characters each of them stands for.
    Returns: a number: the bits of all tokens together, divided by the number of all characters.
    """
    ### BEGIN SOLUTION
    nats = -log_probabilities.sum()
    bits = nats / math.log(2)
    return (bits / lengths.sum()).item()
    ### END SOLUTION


# %% check bits_per_character
check(bits_per_character)

# %% [markdown]
# The same quality has several names. The bigram model on the held-out text:

# %%
own_bits = yours("bits_per_character", bits_per_character)


def bits_of(log_probabilities: Tensor) -> float:
    """Bits per character where each token is a character."""
    return own_bits(log_probabilities, torch.ones(len(log_probabilities)))


bits = {
    "unigram": bits_of(unigram.log()[held_out[1:]]),
    "bigram": bits_of(bigram.log()[held_out[:-1], held_out[1:]]),
}
nats = bits["bigram"] * math.log(2)
per_word = len(corpus.held_out) / len(corpus.held_out.split())
print(f"cross-entropy        {nats:.3f} nats per character, the loss of training")
print(f"                     {bits['bigram']:.3f} bits per character")
print(f"perplexity           {math.exp(nats):.2f} per character = 2 ** {bits['bigram']:.3f}")
print(
    f"                     {math.exp(nats * per_word):,.0f} per word of {per_word:.1f} characters, its space included"
)
for text in ("naive cafe", "naïve café", "你好"):
    print(f"{text}: {len(text)} characters, {len(text.encode())} bytes in UTF-8")

# %% claims
claim("the perplexity is 2 to the bits", abs(math.exp(nats) - 2 ** bits["bigram"]) < 1e-6)

# %% [markdown]
# {{term cross-entropy|Cross-entropy}} in {{term nat|nats}}, bits, and {{term perplexity}} measure the same thing, but
# always say *per what*. For plain English a character is one byte, and bits per byte are bits per character.
#
# Now longer contexts. A table for $n = 5$ would have $96^5 \approx 8$ billion entries. Instead, only the runs that
# occur are stored, and a context that was seen rarely **backs off** to a shorter one. The figure also shows two
# compression programs, which learn as they go; *primed* means that the program has read the training text first.

# %% figure Bits per character without a network
five = writing.backoff_log_probabilities(train, held_out, 5, len(ALPHABET))
bits["5-gram"] = bits_of(five)
bits["gzip"], bits["xz"] = writing.gzip_bits(corpus.held_out), writing.xz_bits(corpus.held_out)
bits["xz, primed"] = writing.xz_bits(corpus.held_out, primed_with=corpus.train)


def show_bits(bits: dict[str, float], title: str) -> None:
    figure, ax = plt.subplots(figsize=(8, 0.36 * len(bits) + 1.1))
    ranked = sorted(bits, key=bits.get)
    bars = ax.barh(ranked, [bits[name] for name in ranked], color=[COLOURS["GPT" in name] for name in ranked])
    ax.bar_label(bars, fmt=" %.2f")
    ax.invert_yaxis()
    ax.set(title=title, xlabel="bits per character of the held-out text (less is better)", xlim=(0, 5.6))
    plt.show()


show_bits(bits, "Without a network")

# %% claims
claim("each longer context helps", bits["unigram"] > bits["bigram"] + 0.5 > bits["5-gram"] + 1)
if not FAST:
    claim("the 5-gram model beats gzip", bits["5-gram"] < bits["gzip"])
    claim("xz behind the training text is best", min(bits, key=bits.get) == "xz, primed")

# %% [markdown]
# Four characters of context beat gzip. The best is xz primed with the training text: it copies long runs that it has
# seen before, from any distance. That is the mark to beat.
#
# ## 4 · Windows of one long text
#
# A network reads a piece of limited length. There are no sentences to pad: any place of the text can begin a
# **window**, and at each position the target is the token that comes next. With window $b$ beginning at $s_b$:
#
# $$\text{inputs}_{b,t} = \text{ids}_{s_b + t} \qquad\qquad \text{targets}_{b,t} = \text{ids}_{s_b + t + 1}$$
#
# {{exercise text_windows}}


# %% exercise text_windows
def text_windows(ids: Tensor, starts: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Cut windows out of one long text: what the model reads, and at each place the token that comes next.

    ids: (n,), the text; starts: (batch,), where each window begins, at most n - length - 1.
    Returns: inputs and targets, both (batch, length).
    """
    ### BEGIN SOLUTION
    places = starts[:, None] + torch.arange(length)  # (batch, length)
    return ids[places], ids[places + 1]
    ### END SOLUTION


# %% check text_windows
check(text_windows)

# %% figure Two windows, and what is asked at each position
own_windows = yours("text_windows", text_windows)
inputs, targets = own_windows(encode("Return the number of items."), torch.tensor([0, 7]), 12)
figure, axes = plt.subplots(2, 1, figsize=(7, 2.6))
for ax, given, asked in zip(axes, inputs, targets):
    ax.table(
        [list(decode(given).replace(" ", "␣")), list(decode(asked).replace(" ", "␣"))],
        rowLabels=["given", "asked for"], cellLoc="center", loc="center", bbox=(0, 0, 1, 1),
    )  # fmt: skip
    ax.axis("off")
axes[0].set_title("Two windows of 12 characters")
plt.show()

# %% [markdown]
# A window of 64 characters is 64 questions at once, with 1 to 64 characters of context. That works only because of the
# {{term causal}} mask. **Spot the mistake:** "Attention without a mask sees more, so it predicts better." It sees the
# answer: at position $t$ it would look at position $t + 1$ and copy, as in notebook 8 without the shift.
#
# ## 5 · The GPT
#
# A GPT is the {{term decoder}} of notebook 6 without {{term cross-attention}}, since there is nothing to translate.
# (Some call such models *decoder-only*, and BERT of notebook 10 *encoder-only*. The block is the same, and the mask
# differs.) With $E$ for the table of {{term embedding|embeddings}}, one row per token:
#
# $$x^{(0)}_t = E_{\text{id}_t} \qquad x^{(l)} = \text{block}_l\big(x^{(l-1)}\big) \qquad
# \text{logits}_t = E \cdot \operatorname{LayerNorm}\big(x^{(L)}_t\big)$$
#
# The block is given: `reference.DecoderBlock(d_model, num_heads, d_ff)` is a {{term pre-norm}} layer with causal
# {{term multi-head attention}} and a {{term feed-forward network}}. Positions enter inside the attention
# ({{term RoPE}}), so none are added to the embeddings. The output uses the same table $E$ ({{term weight tying}}). The
# table starts with small entries, of standard deviation 0.02, so that the first logits are near 0.
#
# {{exercise GPT}}


# %% exercise GPT
class GPT(nn.Module):
    """A decoder without an encoder: ids in, logits for the next token out, at every position at once.

    It has exactly these parts: `embedding` (nn.Embedding), whose entries start as N(0, 0.02²) and are used as they are,
    without a factor; `blocks` (nn.ModuleList), num_layers times reference.DecoderBlock; `norm` (reference.LayerNorm),
    after the last block. The output layer has no weights of its own: it uses those of `embedding`.
    """

    def __init__(self, vocab_size: int, d_model: int, num_heads: int, d_ff: int, num_layers: int):
        super().__init__()
        ### BEGIN SOLUTION
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.blocks = nn.ModuleList(reference.DecoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers))
        self.norm = reference.LayerNorm(d_model)
        ### END SOLUTION

    def forward(self, ids: Tensor) -> Tensor:
        """ids: (batch, time). Returns: logits (batch, time, vocab_size); row t is about the token that follows t."""
        ### BEGIN SOLUTION
        x = self.embedding(ids)  # (batch, time, d_model)
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.embedding.weight.T  # (batch, time, vocab_size)
        ### END SOLUTION


# %% check GPT
check(GPT)

# %%
own_GPT = yours("GPT", GPT)
torch.manual_seed(1)
model = writing.new_writer(own_GPT).to(device)  # 96 characters, d_model 128, 4 heads, d_ff 512, 3 layers
parameters = {name: sum(p.numel() for p in part.parameters()) for name, part in model.named_children()}
print("parameters:", {name: f"{number:,}" for name, number in parameters.items()}, f"sum {sum(parameters.values()):,}")
untrained = bits_of(writing.log_probabilities(model, held_out[:2000]))
print(f"untrained: {untrained:.2f} bits per character; all equally likely: {math.log2(96):.2f}")
window = held_out[:12][None].to(device)
changed = window.clone()
changed[0, 7] = 0
moved = (model(window) - model(changed)).abs().amax(dim=-1)[0]  # (12,)
print("character 7 changed; logits that move:", [t for t in range(12) if moved[t] > 1e-6])

# %% claims
claim("an untrained model guesses", abs(untrained - math.log2(96)) < 0.3)
claim("the past does not move", [t for t in range(12) if moved[t] > 1e-6] == list(range(7, 12)))

# %% [markdown]
# No earlier position has noticed the change: nothing leaks. Nearly all parameters are in the blocks.
#
# ## 6 · Writing
#
# To write, the model is asked for the next token again and again, as in notebook 9. There is no {{term EOS}} here, only
# a number of tokens, and a **sliding window**: the model sees the last `max_len` tokens, since it was trained with no
# more. In each turn:
#
# $$\text{next} = \operatorname{sample}\Big(\operatorname{top-k}\big(\text{logits of the last position}\big),\;
# T,\; u_i\Big)$$
#
# `reference.top_k_filter(logits, k)` and `reference.sample(logits, temperature, u)` are those of notebook 9: both take
# logits `(batch, vocab)`, and `u` has one number for each row.
#
# {{exercise generate}}


# %% exercise generate
def generate(
    model: nn.Module,
    prompt: Tensor,
    new_tokens: int,
    temperature: float,
    top_k: int,
    draws: Tensor,
    max_len: int,
) -> Tensor:
    """Continue a prompt, one token after the other, without recording gradients.

    model: ids (batch, time) → logits (batch, time, vocab). It is given the last `max_len` tokens, or all if there are
    fewer, as a batch of one. Of its logits for what follows, the top_k largest are kept and sampled from at this
    temperature (more than 0); new token i uses the number draws[i].
    prompt: (time,), at least one token; draws: (new_tokens,), numbers in [0, 1).
    Returns: (time + new_tokens,), the prompt first.
    """
    ### BEGIN SOLUTION
    ids = prompt
    for i in range(new_tokens):
        with torch.no_grad():
            logits = model(ids[-max_len:][None])[:, -1]  # (1, vocab)
        token = reference.sample(reference.top_k_filter(logits, top_k), temperature, draws[i : i + 1])  # (1,)
        ids = torch.cat([ids, token])
    return ids
    ### END SOLUTION


# %% check generate
check(generate)

# %%
own_generate = yours("generate", generate)


def write(model, prompt: str, new_tokens: int, temperature: float, top_k: int = 96, seed: int = 0) -> str:
    """Your generate, from text to text. Returns what was written after the prompt."""
    torch.manual_seed(seed)
    draws, ids = torch.rand(new_tokens), encode(prompt)
    written = own_generate(model, ids.to(device), new_tokens, temperature, top_k, draws.to(device), LENGTH)
    return decode(written[len(ids) :])


print(repr(write(model, "Return the ", 50, temperature=1.0)))

# %% [markdown]
# The untrained model draws 96 characters at random.
#
# ## 7 · Training
#
# 2,200 steps, each on 16 windows, with your `text_windows` and your `GPT`; the learning rate rises for 100 steps and
# falls along a cosine. It takes about three minutes, and now and then the model writes a line with your `generate`. (If
# you cannot wait: with `TRAIN = False` your class gets weights that come with the course, after 3,000 steps.)

# %%
TRAIN = True
STEPS = 20 if FAST else 2200
curve: list[tuple[int, float]] = []  # step, bits per character of a piece of the held-out text


def report(step: int, loss: float) -> None:
    if step % (STEPS // 10) == 0:
        curve.append((step, bits_of(writing.log_probabilities(model, held_out[: 500 if FAST else 6000]))))
        model.train()
    if step in (STEPS // 20, STEPS // 4, STEPS // 2, STEPS):
        line = "Return the " + write(model, "Return the ", 60, temperature=0.7)
        print(f"\r{f'step {step}':9} {' '.join(line.split()):<80}")


starts = writing.random_starts(len(train), LENGTH, writing.BATCH_SIZE, STEPS, seed=1)
if TRAIN:
    rate = writing.writer_rate(STEPS)
    losses = writing.train_on_text(model, train, bar(starts, "training", STEPS), rate, LENGTH, own_windows, report)
if FAST or not TRAIN:
    model = writing.load_writer(own_GPT).to(device)

# %% figure The held-out text while the model learns
figure, ax = plt.subplots(figsize=(7.5, 3.2))
if TRAIN:
    smooth = torch.tensor(losses).unfold(0, min(20, STEPS), 1).mean(dim=1) / math.log(2)
    ax.plot(range(STEPS - len(smooth) + 1, STEPS + 1), smooth, linewidth=0.9, label="training (mean of 20 steps)")
    ax.plot(*zip(*curve), "o-", markersize=3, label="held out")
for name, style in (("bigram", ":"), ("5-gram", "--"), ("xz, primed", "-.")):
    ax.axhline(bits[name], color="grey", linestyle=style, linewidth=1.2, label=name)
ax.set(title="Learning to predict docstrings", xlabel="step", ylabel="bits per character", ylim=(1.5, 5))
ax.legend(loc="upper right", ncols=2)
plt.show()

# %%
bits["your GPT"] = bits_of(writing.log_probabilities(model, held_out))
show_bits(bits, "The held-out text, with a network and without")

# %% claims
if not FAST:
    claim("2.10 bits per character or less", bits["your GPT"] <= 2.10)
    claim("below the 5-gram model", bits["your GPT"] < bits["5-gram"] - 0.05)
    claim("training and held-out text fall together", curve[-1][1] < 2.3 and curve[0][1] > curve[-1][1] + 0.5)
    claim("xz behind the training text is still better than three minutes", bits["xz, primed"] < bits["your GPT"])

# %% [markdown]
# After three minutes your model is better than the 5-gram model. Only xz, which keeps the whole training text at hand,
# is better still.
#
# Where does the model gain? Below, the surprise at each character of the sentence from section 2:

# %% figure Where the bits go: your GPT and the 5-gram model, character by character


def gpt_probabilities(so_far: Tensor) -> Tensor:
    with torch.no_grad():
        return model(so_far[-LENGTH:][None].to(device))[0, -1].softmax(dim=-1).cpu()


by_gpt = coded(gpt_probabilities, "GPT")
gpt_surprise = [-gpt_probabilities(sentence[:t])[sentence[t]].log2().item() for t in range(1, len(sentence))]
context = torch.cat([encode("\n\n\n"), sentence])
five_nats = -writing.backoff_log_probabilities(train, context, 5, len(ALPHABET))  # from character 1 on
figure, ax = plt.subplots(figsize=(10, 2.8))
places = range(1, len(sentence))
ax.bar([t - 0.2 for t in places], five_nats / math.log(2), 0.4, label="5-gram", color=COLOURS[4])
ax.bar([t + 0.2 for t in places], gpt_surprise, 0.4, label="your GPT", color=COLOURS[1])
ax.set_xticks(range(len(sentence)), [character.replace(" ", "␣") for character in decode(sentence)])
ax.set(title="Surprise at each character", xlabel="character", ylabel="bits")
ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
plt.show()

# %% claims
claim("the code of the sentence is shorter than by bigrams", len(by_gpt[0]) < len(by_bigram[0]))
first_letters = [surprise for t, surprise in enumerate(gpt_surprise, start=1) if decode(sentence[t - 1 : t]) == " "]
others = [surprise for t, surprise in enumerate(gpt_surprise, start=1) if decode(sentence[t - 1 : t]) != " "]
claim("first letters of words cost most", sum(first_letters) / len(first_letters) > 1.3 * sum(others) / len(others))

# %% [markdown]
# The first letters of words cost most; once a word is clear, the rest of it is cheap.
#
# ## 8 · Temperature, top-k, top-p and repetition
#
# Now let your model write. Each setting continues the same {{term prompt}} several times. *Repeated* is the share of
# runs of 12 characters that occurred earlier in the sample; *real words* is the share of its words that occur in the
# training text.

# %% figure Your model writes, in six settings
vocabulary = set(corpus.train.split())
draw = lambda logits, T=1.0: sample(logits, T, torch.rand(len(logits)))
settings = {
    "greedy": lambda logits: logits.argmax(dim=-1),
    "T = 0.5": lambda logits: draw(logits, 0.5),
    "T = 1": draw,
    "T = 1.5": lambda logits: draw(logits, 1.5),
    "T = 1, top-k 5": lambda logits: draw(top_k_filter(logits, 5)),
    "T = 1, top-p 0.9": lambda logits: draw(top_p_filter(logits, 0.9)),
}


def repeated(text: str, run: int = 12) -> float:
    runs = [text[i : i + run] for i in range(len(text) - run + 1)]
    return 1 - len(set(runs)) / len(runs)


prompt = "Return the "
rows, new_tokens = (2, 40) if FAST else (6, 250)
quality = {}
for name, choose in settings.items():
    torch.manual_seed(1)
    texts = [decode(row) for row in writing.write(model, encode(prompt).repeat(rows, 1), new_tokens, choose)]
    words = [word for text in texts for word in text[len(prompt) :].split()[1:-1]]
    real = sum(word in vocabulary for word in words) / max(len(words), 1)
    quality[name] = sum(map(repeated, texts)) / rows, real
    print(f"{name:17} repeated {quality[name][0]:4.0%}, real words {quality[name][1]:4.0%}")
    for text in texts[:1] if name == "greedy" else texts[:2]:
        print("    " + " ".join(text.split())[:110])

# %% claims
if not FAST:
    claim("greedy decoding repeats itself", quality["greedy"][0] > 0.3)
    claim("the hotter, the fewer real words", quality["T = 0.5"][1] > quality["T = 1"][1] > quality["T = 1.5"][1])
    claim("sampling hardly repeats", quality["T = 1"][0] < 0.1)
    cut = min(quality["T = 1, top-k 5"][1], quality["T = 1, top-p 0.9"][1])
    claim("cutting the tail gives more real words", cut > quality["T = 1"][1])

# %% [markdown]
# Greedy decoding runs in circles: what has just been written is the best prediction of what comes next. Sampling leaves
# the circle. Two samples from one prompt are two different texts. A high {{term temperature}} invents words;
# {{term top-k}} and {{term top-p}} cut off the tail and keep the variety.
#
# What does a **prompt** do to a model that has seen nothing but docstrings?

# %%
for prompt in (
    "Raise a ",
    ">>> x = [1, 2, 3]\n>>> ",
    "Once upon a time there was a ",
    "Question: Who wrote Hamlet?\nAnswer: ",
):
    surprise = bits_of(writing.log_probabilities(model, encode(prompt), length=len(prompt) - 1))
    written = write(model, prompt, 20 if FAST else 120, temperature=0.6, top_k=20, seed=2)
    print(f"--- {prompt!r}: {surprise:.1f} bits per character\n{prompt}{written}\n")

# %% claims
tale, usual = "Once upon a time there was a king who had a daughter.", "Return a list of all the names that are used."
surprises = [bits_of(writing.log_probabilities(model, encode(text), len(text) - 1)) for text in (tale, usual)]
claim("a fairy tale surprises it more than a docstring", surprises[0] > surprises[1] + 0.5)

# %% [markdown]
# A prompt does not ask the model anything; it is the beginning of a document. Whatever it says, the model continues it
# as if it were a docstring. It has no answer to give about Hamlet, and no notion of being asked. Chat models are
# trained in further steps to treat a question as something to be answered.
#
# ## 9 · Has it learned by heart?
#
# A good imitation may be a copy. We measure it: for each place in a text, we take the longest run from there on that
# also occurs in the training text. The control is the *held-out* text: it was written by people, and copies nothing on
# purpose. For contrast, we train a model that reads the same 4,000 characters over and over.

# %%
torch.manual_seed(3)
parrot = own_GPT(len(ALPHABET), 64, 4, 256, 2).to(device)
start = corpus.train.index("\n\n", len(train) // 2)
page = corpus.train[start : start + 4000]
steps = 20 if FAST else 400
pages = writing.random_starts(len(page), LENGTH, 16, steps, seed=3)
writing.train_on_text(parrot, encode(page), bar(pages, "4,000 characters", steps), writing.writer_rate(steps))

# %% figure How much of a text occurs in the training text?
rows, new_tokens = (2, 60) if FAST else (8, 240)
prompts = torch.stack([held_out[place : place + 20] for place in range(0, 1000 * rows, 1000)])  # (rows, 20)
samples = {
    "held-out text": [corpus.held_out[place : place + new_tokens] for place in range(20, 1000 * rows, 1000)],
    "your GPT, T = 1": writing.write(model, prompts, new_tokens, writing.sampler(1.0, 96, seed=4)),
    "your GPT, T = 0.5": writing.write(model, prompts, new_tokens, writing.sampler(0.5, 96, seed=4)),
    "4,000 characters, T = 0.5": writing.write(parrot, prompts, new_tokens, writing.sampler(0.5, 96, seed=4)),
}
copied, figure, ax = {}, *plt.subplots(figsize=(8, 3))
for (name, written), colour in zip(samples.items(), (COLOURS[7], *COLOURS)):
    texts = written if isinstance(written, list) else [decode(row[20:]) for row in written]
    runs = [length for text in texts for length in writing.longest_matches(text, corpus.train)]
    copied[name] = sum(writing.share_copied(text, corpus.train, 30) for text in texts) / rows, max(runs)
    print(f"{name:26} {copied[name][0]:4.0%} in runs of 30 characters or more, longest run {copied[name][1]}")
    ranked = torch.tensor(runs).sort(descending=True).values
    ax.plot(torch.linspace(0, 100, len(ranked)), ranked, label=name, color=colour)
ax.set(title="The longest known run from each place", xlabel="% of places", ylabel="characters", yscale="log")
ax.legend(loc="upper right", fontsize=8)
plt.show()

# %% claims
if not FAST:
    claim("each character was seen about twice", 1.5 < STEPS * writing.BATCH_SIZE * LENGTH / len(train) < 2.5)
    claim("the page about a hundred times", 90 < steps * writing.BATCH_SIZE * LENGTH / len(page) < 110)
    mine, control = copied["your GPT, T = 1"], copied["held-out text"]
    claim("your model copies no more than the held-out text does", mine[0] < control[0] + 0.1)
    claim("the parrot copies far more", copied["4,000 characters, T = 0.5"][0] > control[0] + 0.1)
    claim("a lower temperature keeps closer to the text", copied["your GPT, T = 0.5"][0] >= mine[0])

# %% [markdown]
# Your model has seen each character about twice. At $T = 1$ it copies no more than people do, who also write "Return
# True if the …" again and again; at a lower temperature it falls back on stock phrases. The small model that has seen
# one page a hundred times writes long runs of it. **Memorisation comes from repetition**, which is why large training
# texts are cleaned of duplicates. (Carlini et al. 2021 got names and telephone numbers out of GPT-2.)
#
# {{question is_it_a_copy}}
#
# A friend's model wrote a paragraph that occurs, word for word, in its training text. "So it only copies", she says.
# What would you measure before you agree? And would a *low* share of copied text prove that the model memorised
# nothing?

# %% answer is_it_a_copy 2 [markdown]
# ### BEGIN SOLUTION
# One paragraph proves little: some phrases are so common that people write them again too. I would measure the length
# of the runs that many samples share with the training text, and compare with a control: held-out text of the same kind
# and length. It also matters how often that paragraph occurs in the training text, and how the sample was drawn
# (prompt, temperature): greedy samples and prompts from the training text copy more. (1 point.) No: what a sample does
# not show can still be there. With the right prompt, for example the beginning of a page that was seen often, the model
# may continue it word for word; and copies with small changes are not counted. (1 point.)
#
# **Rubric**
#
# - 1 point: a measurement over many samples with a control, such as held-out text; or how often the paragraph occurs in
#   the training text
# - 1 point: no: what a sample does not show may come out with another prompt
# ### END SOLUTION

# %% [markdown]
# ## 10 · Pieces: byte-pair encoding
#
# Characters make long sequences: a window of 64 holds about ten words. Whole words would be too many, and a new word
# could not be written. In between are pieces. BERT's **WordPiece** writes *walking* as *walk* + *##ing*; GPT-2 uses
# {{term byte-pair encoding}}, which you write now.
#
# Begin with the bytes of the text (UTF-8, so that *every* text can be written): ids 0 to 255. Then, again and again,
# take the pair of neighbours that occurs most often, and make it one new piece, everywhere:
#
# $$\text{merge}_i = \arg\max_{(a, b)} \sum_{\text{chunk}} \text{count}(\text{chunk}) \cdot
# n_{ab}(\text{chunk}) \qquad \text{new id: } 256 + i$$
#
# where $n_{ab}(\text{chunk})$ says how often the pair occurs in the chunk.
#
# So that no piece reaches from one word into the next, the text is first cut into chunks, each a word with the space
# before it, and equal chunks are counted once with their number. By hand: `ab` 3 times and `abb` twice. The pair (a, b)
# occurs 5 times, (b, b) twice. Merge 0 is (a, b) = (97, 98), with id 256; then (256, 98) occurs twice and is merge 1.
# If two pairs are equally frequent, take the smaller one, as Python compares tuples.
#
# `reference.merge_pair(ids, pair, new_id)` replaces a pair everywhere in one list of ids; the counting, the choice and
# the rounds are yours.
#
# {{exercise train_bpe}}


# %% exercise train_bpe
def train_bpe(counts: dict[str, int], num_merges: int) -> list[tuple[int, int]]:
    """Learn which neighbouring pieces to join, from how often they occur. Pieces begin as the bytes of UTF-8.

    counts: chunks of text and how often each occurs. Pieces of different chunks are never neighbours.
    Every two neighbours are a pair: "aaa" holds (a, a) twice. When a pair is merged, go from left to right: of "aaa",
    the first two become one.
    Returns: the merges in the order they were learned, num_merges of them, or fewer if no pair is left. Merge number i,
    counted from 0, makes the id 256 + i.
    """
    ### BEGIN SOLUTION
    chunks = [(list(chunk.encode("utf-8")), count) for chunk, count in counts.items()]
    merges = []
    for new_id in range(256, 256 + num_merges):
        pairs = Counter()
        for ids, count in chunks:
            for pair in pairwise(ids):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        chunks = [(reference.merge_pair(ids, best, new_id), count) for ids, count in chunks]
        merges.append(best)
    return merges
    ### END SOLUTION


# %% check train_bpe
check(train_bpe)

# %% [markdown]
# To encode a new chunk, start from its bytes and apply the merges **in the order in which they were learned**: later
# ones are made of earlier ones. To decode, replace each id by its bytes and put them together. Only then make text of
# them: one character of UTF-8 may have up to four bytes, which can lie in different pieces.
#
# $$\text{bytes}(256 + i) = \text{bytes}(a_i) \,\Vert\, \text{bytes}(b_i) \qquad (a_i, b_i) = \text{merge}_i$$
#
# {{exercise bpe_encode}}


# %% exercise bpe_encode
def bpe_encode(chunk: str, merges: list[tuple[int, int]]) -> list[int]:
    """The ids of the pieces of one chunk: its UTF-8 bytes, then every merge in the order they were learned.

    merges: as `train_bpe` returns them; merge number i makes the id 256 + i.
    """
    ### BEGIN SOLUTION
    ids = list(chunk.encode("utf-8"))
    for number, pair in enumerate(merges):
        ids = reference.merge_pair(ids, pair, 256 + number)
    return ids
    ### END SOLUTION


# %% check bpe_encode
check(bpe_encode)

# %% [markdown]
# {{exercise bpe_decode}}


# %% exercise bpe_decode
def bpe_decode(ids: list[int], merges: list[tuple[int, int]]) -> str:
    """The text of a sequence of pieces: the bytes of all of them, decoded once, at the end, with errors="replace"."""
    ### BEGIN SOLUTION
    pieces = [bytes([byte]) for byte in range(256)]  # what each id stands for
    for first, second in merges:
        pieces.append(pieces[first] + pieces[second])
    return b"".join(pieces[piece] for piece in ids).decode("utf-8", errors="replace")
    ### END SOLUTION


# %% check bpe_decode
check(bpe_decode)

# %% [markdown]
# Your function learns 300 merges from the most common chunks of the training text.

# %%
own_bpe = yours("train_bpe", train_bpe), yours("bpe_encode", bpe_encode), yours("bpe_decode", bpe_decode)
learn, to_pieces, from_pieces = own_bpe
chunks = writing.chunks_of(corpus.train)
merges = learn(dict(Counter(chunks).most_common(500 if FAST else 2000)), 50 if FAST else 300)
print("the first pieces: ", [from_pieces([256 + i], merges) for i in range(12)])
print("the last pieces:  ", [from_pieces([256 + i], merges) for i in range(len(merges) - 8, len(merges))])
for text in ("Return the number of items in the list.", "walking", "naïve 😀"):
    pieces = [piece for chunk in writing.chunks_of(text) for piece in to_pieces(chunk, merges)]
    print(f"{len(text):2} characters, {len(pieces):2} pieces:  {' | '.join(from_pieces([p], merges) for p in pieces)}")

# %% claims
claim("every text comes back", all(
    from_pieces([p for c in writing.chunks_of(text) for p in to_pieces(c, merges)], merges) == text
    for text in ("naïve 😀", corpus.held_out[:500])
))  # fmt: skip

# %% [markdown]
# Frequent words have become one piece; a rare word is split into several, and text that was never seen into bytes (� is
# a byte that is not valid text by itself).
#
# Now a GPT on pieces, and the same GPT on characters, with the same number of steps. A loss per *piece* and a loss per
# *character* cannot be compared; bits per character can.


# %%
def train_small(ids: Tensor, vocab_size: int, d_model: int, what: str, steps: int, peak: float = 3e-3) -> nn.Module:
    """A GPT with two layers, trained on windows of 64 tokens."""
    torch.manual_seed(1)
    model = own_GPT(vocab_size, d_model, d_model // 16, 4 * d_model, 2).to(device)
    starts = writing.random_starts(len(ids), LENGTH, writing.BATCH_SIZE, steps, seed=1)
    writing.train_on_text(model, ids, bar(starts, what, steps), writing.writer_rate(steps, peak), windows=own_windows)
    return model


SWEEP = 20 if FAST else 300  # steps
test = held_out[: 3000 if FAST else 20_000]
dictionary = {chunk: to_pieces(chunk, merges) for chunk in set(chunks) | set(writing.chunks_of(decode(test)))}
as_pieces = lambda chunks: torch.tensor([piece for chunk in chunks for piece in dictionary[chunk]])
train_pieces, test_pieces = as_pieces(chunks), as_pieces(writing.chunks_of(decode(test)))
lengths = torch.tensor(
    [len(from_pieces([piece], merges)) for piece in range(256 + len(merges))]
)  # characters of a piece
print(f"{len(train) / len(train_pieces):.2f} characters per piece")

on_characters = train_small(train, len(ALPHABET), 64, "characters", SWEEP)
on_pieces = train_small(train_pieces, 256 + len(merges), 64, "pieces", SWEEP)
log_p = writing.log_probabilities(on_pieces, test_pieces)
by_pieces = own_bits(log_p, lengths[test_pieces[1:]])
by_characters = bits_of(writing.log_probabilities(on_characters, test))
print(f"characters  {by_characters * math.log(2):.2f} nats per token, {by_characters:.3f} bits per character")
print(f"pieces      {-log_p.mean():.2f} nats per token, {by_pieces:.3f} bits per character")

# %% claims
claim("all characters are counted", lengths[test_pieces].sum() == len(test))
if not FAST:
    claim("per token the pieces look worse", -log_p.mean().item() > by_characters * math.log(2) + 0.5)
    claim("per character they are better", by_pieces < by_characters - 0.02)

# %% [markdown]
# Per token the model on pieces looks worse, since a piece is harder to guess than a character. Per character it is
# better: the same 64 places hold more text, and the same steps have read more of it. The price is a larger embedding
# table.
#
# ## 11 · How large, how fast?
#
# Two questions come before each large training: which learning rate, and how large a model? Small models answer the
# first one cheaply. For the second, people found (Kaplan et al. 2020) that the loss falls with the size $N$ of the
# model as a
# {{term power law}}, a straight line if both axes are logarithmic:
#
# $$\text{loss} \approx c \cdot N^{-\alpha} \qquad\qquad \ln \text{loss} \approx \ln c - \alpha \ln N$$
#
# The line with the smallest squared distances has, for $x = \ln N$ and $y = \ln \text{loss}$, the slope
#
# $$-\alpha = \frac{\sum_i (x_i - \bar x)(y_i - \bar y)}{\sum_i (x_i - \bar x)^2} \qquad\qquad
# \ln c = \bar y + \alpha\, \bar x$$
#
# {{exercise fit_power_law}}


# %% exercise fit_power_law
def fit_power_law(sizes: Tensor, losses: Tensor) -> tuple[float, float]:
    """The power law loss ≈ scale · size^(-exponent) that fits best: a straight line through the logarithms.

    sizes and losses: (models,), positive, at least two different sizes.
    Returns: scale and exponent, two numbers; the exponent is positive if larger models have a smaller loss.
    """
    ### BEGIN SOLUTION
    x, y = sizes.double().log(), losses.double().log()  # (models,)
    x_away, y_away = x - x.mean(), y - y.mean()
    slope = (x_away * y_away).sum() / (x_away * x_away).sum()
    intercept = y.mean() - slope * x.mean()
    return intercept.exp().item(), -slope.item()
    ### END SOLUTION


# %% check fit_power_law
check(fit_power_law)

# %% figure A learning-rate sweep, and a size sweep with your power law
own_fit = yours("fit_power_law", fit_power_law)
rates = [3e-4, 1e-3, 3e-3, 1e-2, 3e-2]
by_rate, swept_models = [], {64: on_characters}
for peak in rates:
    swept = train_small(train, len(ALPHABET), 32, f"rate {peak:g}", SWEEP, peak)
    by_rate.append(bits_of(writing.log_probabilities(swept, test)))
    if peak == 3e-3:
        swept_models[32] = swept
for width in (16, 128):
    swept_models[width] = train_small(train, len(ALPHABET), width, f"d_model {width}", SWEEP)
swept_models = [swept_models[width] for width in (16, 32, 64, 128)]
sizes = torch.tensor([float(sum(p.numel() for p in swept.blocks.parameters())) for swept in swept_models])
by_size = torch.tensor([bits_of(writing.log_probabilities(swept, test)) for swept in swept_models])
scale, exponent = own_fit(sizes[:3], by_size[:3])
predicted = scale * sizes**-exponent
print(f"loss ≈ {scale:.2f} · N^-{exponent:.3f}, from the three smaller models")
print(f"the largest: predicted {predicted[3]:.2f}, measured {by_size[3]:.2f} bits per character")
figure, axes = plt.subplots(1, 2, figsize=(10, 3.2))
axes[0].plot(rates, by_rate, "o-")
axes[0].set(
    title=f"d_model 32, {SWEEP} steps", xlabel="highest learning rate", ylabel="bits per character", xscale="log"
)
axes[1].plot(sizes, by_size, "o", label="measured")
axes[1].plot(sizes, predicted, "--", color=COLOURS[1], label="power law through the first three")
axes[1].set(title=f"{SWEEP} steps each", xlabel="parameters in the blocks", ylabel="bits per character")
axes[1].set(xscale="log", yscale="log")
axes[1].set_yticks([2.5, 3, 3.5, 4], ["2.5", "3", "3.5", "4"])
axes[1].minorticks_off()
axes[1].legend()
plt.show()

# %% claims
if not FAST:
    best = by_rate.index(min(by_rate))
    claim("the best rate is in the middle", 1 < best < len(rates) - 1)
    cost = by_rate[best - 2] - by_rate[best]
    claim("a tenth of the best rate costs more than a quarter of the size", cost > (by_size[0] - by_size[1]).item())
    claim("each larger model is better", all(by_size[i] > by_size[i + 1] for i in range(3)))
    claim("the line predicts the largest to within a tenth or so", abs(predicted[3] - by_size[3]).item() < 0.25)

# %% [markdown]
# A tenth of the best rate costs more than a quarter of the model's size. On the right the three small models predict
# the fourth, four times as large as the third, quite well. Note what the line does not say: all models took the same
# number of steps, and the loss cannot fall below the {{term entropy}} of the text.
#
# {{question beyond_the_line}}
#
# Somebody extends the line to a model 10,000 times as large and promises 1 bit per character after the same number of
# steps. Give two reasons for doubt, and say what you would measure.

# %% answer beyond_the_line 2 [markdown]
# ### BEGIN SOLUTION
# One point for each of two reasons, with a measurement for at least one. For example: a line through three or four
# points over two orders of magnitude says little about four more; train two or three sizes in between and see whether
# they stay on it. The text has an entropy above 0, so the curve has to bend; fit a law with a constant term. The number
# of steps and the amount of text were fixed: a large model on one megabyte would learn it by heart, and the held-out
# loss would rise again; watch the held-out curve, or let the text grow with the model (Hoffmann et al. 2022). The best
# learning rate changes with the size; repeat the sweep at each size.
#
# **Rubric**
#
# - 1 point: a first reason for doubt, with what would be measured
# - 1 point: a second reason of another kind
# ### END SOLUTION

# %% [markdown]
# ## 12 · GPT-2
#
# Your class *is* GPT-2, up to details: GPT-2 has learned positions instead of RoPE, uses GELU, and reads pieces from
# byte-pair encoding. Its largest model has 48 blocks, $d_\text{model} = 1600$, 25 heads, 50,257 tokens and 1,024
# positions. Each block has $4 d^2 + 4d$ parameters in the attention, $8 d^2 + 5d$ in the feed-forward network and $4d$
# in two norms:
#
# $$\underbrace{V d}_{\text{tokens}} + \underbrace{1024\, d}_{\text{positions}} +
# 48\,(12 d^2 + 13 d) + \underbrace{2 d}_{\text{last norm}}$$

# %%
d = 1600
by_formula = 50257 * d + 1024 * d + 48 * (12 * d**2 + 13 * d) + 2 * d
with torch.device("meta"):  # shapes only, no memory
    large = own_GPT(50257, d, 25, 4 * d, 48)
by_class = sum(p.numel() for p in large.parameters())
print(f"by the formula {by_formula:,}; your class {by_class:,} + {1024 * d:,} for learned positions")

theirs, ours = 170_000 * 32 * 256, 2200 * 16 * LENGTH  # characters seen
small = own_GPT(256, 256, 8, 1024, 12)
for name, built, seen in (("12 blocks", small, theirs), ("your GPT", model, ours)):
    size = sum(p.numel() for p in built.parameters())
    print(f"{name}: {size / 1e6:.1f} million parameters, {seen / 1e6:,.1f} million characters seen")
work = sum(p.numel() for p in small.parameters()) * theirs / (sum(parameters.values()) * ours)
print(f"that is about {work:,.0f} times the work")

# %% claims
claim("1,557,611,200 parameters", by_formula == 1_557_611_200 == by_class + 1024 * 1600)
claim("about ten thousand times the work", 8_000 < work < 14_000)

# %% [markdown]
# So GPT-2 has 1.558 billion parameters, often rounded to 1.5. To put your own result into perspective, here are numbers
# that others have reported, on another text (*enwik8*, the first 100 million bytes of Wikipedia, with its markup):
#
# | model | trained | bits per byte |
# |---|---|---|
# | 12 blocks, width 256, windows of 256 characters (Bloem 2019) | 170,000 batches of 32, a day on one GPU | 1.343 |
# | GPT-2, 1.5 billion (Radford et al. 2019) | on other text, and never on *enwik8* | 0.93 |
#
# **Spot the mistake:** "1.343 is not far from 0.93." It is 44 % more: $1.343 / 0.93 = 1.44$. (Mind the unit, too: in
# nats it would be $1.343 \cdot \ln 2 = 0.931$, which agrees with GPT-2's number only by chance.)
#
# **The data.** GPT-2 was trained on *WebText*: the text of pages to which users of Reddit had linked, if the link had
# at least three points, so that somebody had found it worth reading. That gave 8 million pages, 40 GB.
#
# **The release.** In February 2019 OpenAI published the paper and only the smallest model, for fear that the largest
# would be used to write false news by the thousand. That was disputed. Some texts still say that the full model was
# never published, but it was: larger ones followed in May and August, the full model in November 2019.
#
# ## What you can do now
#
# Say what a bit per character is, count n-grams, cut windows, build and train a GPT, make it write, measure whether it
# copies, learn pieces, and read a scaling curve with doubt.
#
# **To read on**: Radford et al. (2019), *Language Models are Unsupervised Multitask Learners* · Sennrich et al. (2016),
# *Neural Machine Translation of Rare Words with Subword Units* · Kaplan et al. (2020), *Scaling Laws for Neural
# Language Models* · Hoffmann et al. (2022), *Training Compute-Optimal Large Language Models* · Carlini et al. (2021),
# *Extracting Training Data from Large Language Models*.
