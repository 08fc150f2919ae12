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
# # 7 · The Transformer
#
# All parts are made. In this notebook you join them into the whole model, count its parameters, and show that it
# computes the same as `torch.nn.Transformer`. The second half is about a harder question. A wrong model runs as
# smoothly as a right one, so how do you know that yours is right? You build an instrument that finds out who sees
# whom, and use it on models that run and are wrong. It takes about 90 minutes.

# %% setup
import math
import warnings

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from matplotlib.patches import FancyBboxPatch
from torch import Tensor, nn

from course_lib import check, hint, solution
from course_lib import transformer as reference
from course_lib.encoder_decoder import Decoder, Encoder, EncoderLayer
from course_lib.masks import causal_mask, padding_mask
from course_lib.plotting import COLOURS, show_matrix, use_course_style
from course_lib.positions import PositionalEncoding
from course_lib.sublayers import TokenEmbedding

torch.manual_seed(0)
use_course_style()

# %% [markdown]
# ## What makes it a Transformer
#
# A definition that has held up well: **a Transformer is a network on a set of units (words, image patches, frames of
# sound) in which attention is the only way for one unit to influence another.** Everything else in it (embedding,
# norms, the feed-forward network, the output layer) works on each unit by itself.
#
# You can turn that sentence into a test. Take one encoder layer and let nobody look at anybody but itself: a mask with
# nothing but the diagonal. If the definition holds, each position now depends on itself alone.

# %%
torch.manual_seed(0)
layer = EncoderLayer(d_model=512, num_heads=8, d_ff=2048, norm_first=False)
x = torch.randn(2, 4, 512)
print("one layer, (2, 4, 512) in, out:", tuple(layer(x).shape))


def who_moves(mask):
    """Change position 2 of the input and see which positions of the output change."""
    changed = x.clone()
    changed[:, 2] += 1.0
    return (layer(changed, mask) != layer(x, mask)).any(dim=-1)[0].tolist()


print("every pair may look:      ", who_moves(None))
print("only the diagonal may:    ", who_moves(torch.eye(4, dtype=torch.bool)))

# %% [markdown]
# This layer (self-attention, norm, feed-forward network four times as wide as the model, norm, with a residual path
# around each half) is the *Transformer block* from which everything is stacked. The whole machine has two stacks. You
# know the picture from notebook 06. This one leaves out residual paths and norms, and shows where the masks go:

# %% figure
figure, ax = plt.subplots(figsize=(8.6, 6.2))


def box(x, y, width, text, colour, height=0.62):
    ax.add_patch(FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0.05", facecolor=colour, alpha=0.28))
    ax.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=9)


def arrow(start, end, **style):
    ax.annotate("", xy=end, xytext=start, arrowprops={"arrowstyle": "->", "lw": 1.3, **style})


left, right, width = 0.6, 6.0, 2.9
for base, name, ids in ((left, "source", "src_ids  (batch, source)"), (right, "target", "tgt_ids  (batch, target)")):
    middle = base + width / 2
    ax.text(middle, 0.1, ids, ha="center", fontsize=9)
    box(base, 0.75, width, f"{name} embedding · √d_model", COLOURS[3])
    box(base, 1.75, width, "+ positions, dropout", COLOURS[6])
    arrow((middle, 0.35), (middle, 0.68))
    arrow((middle, 1.45), (middle, 1.68))
    arrow((middle, 2.45), (middle, 2.86))
ax.add_patch(FancyBboxPatch((left - 0.2, 2.85), width + 0.4, 2.0, boxstyle="round,pad=0.05", fill=False))
ax.add_patch(FancyBboxPatch((right - 0.2, 2.85), width + 0.4, 2.95, boxstyle="round,pad=0.05", fill=False))
box(left, 3.05, width, "self-attention", COLOURS[0])
box(left, 4.0, width, "feed-forward", COLOURS[2])
box(right, 3.05, width, "masked self-attention", COLOURS[0])
box(right, 4.0, width, "cross-attention", COLOURS[1])
box(right, 4.95, width, "feed-forward", COLOURS[2])
for base, heights in ((left, (3.72,)), (right, (3.72, 4.67))):
    for height in heights:
        arrow((base + width / 2, height), (base + width / 2, height + 0.25))
ax.text(left - 0.62, 3.85, "N layers, each with\nweights of its own", rotation=90, ha="center", va="center", fontsize=8)
ax.text(right + width + 0.36, 4.3, "N layers", rotation=90, ha="center", va="center", fontsize=8)
arrow((left + width / 2, 4.9), (left + width / 2, 5.35))
ax.text(left + width / 2, 5.42, "memory (batch, source, d_model)", ha="center", fontsize=9)
arrow((left + width / 2 + 1.45, 5.3), (right - 0.05, 4.35), connectionstyle="arc3,rad=0.15")
ax.text(4.95, 5.0, "keys and values", ha="center", fontsize=8)
ax.text(4.75, 3.35, "source mask", ha="center", va="center", fontsize=9, color=COLOURS[7])
arrow((4.2, 3.35), (left + width + 0.06, 3.35), color="#777777")
arrow((5.0, 3.55), (right - 0.05, 4.15), color="#777777")
ax.text(4.75, 2.62, "target mask", ha="center", va="center", fontsize=9, color=COLOURS[7])
arrow((5.05, 2.75), (right - 0.05, 3.2), color="#777777")
box(right, 6.2, width, "output layer", COLOURS[5])
arrow((right + width / 2, 5.85), (right + width / 2, 6.14))
arrow((right + width / 2, 6.9), (right + width / 2, 7.1))
ax.text(right + width / 2, 7.18, "logits (batch, target, tgt_vocab)", ha="center", fontsize=9)
ax.set(xlim=(-0.4, 9.7), ylim=(-0.1, 7.5), title="The Transformer of 2017 (residual paths and norms not drawn)")
ax.axis("off")
plt.show()

# %% [markdown]
# Read it once with a sentence in mind. *The cat is on the mat* becomes six ids, six vectors, six vectors with
# positions. The encoder's layers work **one after the other**, since each needs the result of the one before; but
# inside a layer all six positions are worked on **at once**. Out comes the *memory*: six vectors. The decoder has
# been given a start symbol and *le chat est sur le*, and its cross-attention asks the memory:
#
# $$\text{Attention}(Q_{\text{decoder}}, K_{\text{encoder}}, V_{\text{encoder}})
#   = \text{softmax}\!\left(\frac{Q_{\text{decoder}} K_{\text{encoder}}^\top}{\sqrt{d_k}}\right) V_{\text{encoder}}$$
#
# The output layer turns every decoder position into one number for each word of the target vocabulary. The last
# position's numbers are about the word that follows *le*. It should be *tapis*.
#
# ## Three masks, built inside
#
# There are three attentions, and each needs to know what to hide. So far the caller has made the masks. But the
# caller forgets. The model has everything that is needed: the ids, and the id of the padding. So it builds the masks
# itself, and nobody can call it without.
#
# | attention | who asks (rows) | who is asked (columns) | hidden |
# |---|---|---|---|
# | encoder | source | source | padding of the source |
# | decoder, self | target | target | padding of the target, and the future |
# | decoder, cross | target | source | padding of the source |
#
# Two of the three hide the same thing, so two masks are enough: a source mask `(batch, 1, source)` that serves
# two attentions, whoever asks, and a target mask `(batch, target, target)`.

# %%
sources = ["the cat is on the mat".split(), "the cat sleeps".split()]
targets = ["<bos> le chat est sur le".split(), "<bos> le chat".split()]  # what the decoder is given
followers = ["le chat est sur le tapis".split(), "le chat dort".split()]  # at each place, the word that follows


def vocabulary(sentences):
    return ["<pad>", *dict.fromkeys(word for sentence in sentences for word in sentence)]


def to_ids(sentences, words):
    """The number of each word (0 is padding), padded to the longest sentence."""
    longest = max(map(len, sentences))
    return torch.tensor([[words.index(w) for w in s] + [0] * (longest - len(s)) for s in sentences])


src_words, tgt_words = vocabulary(sources), vocabulary(targets + followers)
src_ids, tgt_ids = to_ids(sources, src_words), to_ids(targets, tgt_words)
print("src_ids =", src_ids.tolist())
print("tgt_ids =", tgt_ids.tolist())

torch.manual_seed(1)
model = reference.Transformer(len(src_words), len(tgt_words), d_model=16, num_heads=2, d_ff=32, num_layers=2)
model.eval()
source_names = [*sources[1], "<pad>", "<pad>", "<pad>"]
target_names = [*targets[1], "<pad>", "<pad>", "<pad>"]
figure, axes = plt.subplots(1, 2, figsize=(8.6, 3.6), width_ratios=[1, 1.05])
show_matrix(
    model.source_mask(src_ids)[1].expand(6, 6).float(),
    "source mask of sentence 1,\nwhoever asks",
    rows="anybody",
    columns="source word that is asked",
    column_names=source_names,
    ax=axes[0],
)
axes[0].set_yticks([])
show_matrix(
    model.target_mask(tgt_ids)[1].float(),
    "target mask of sentence 1:\nreal and not in the future",
    rows="target word that asks",
    columns="target word that is asked",
    row_names=target_names,
    column_names=target_names,
    ax=axes[1],
)
plt.show()

# %% [markdown]
# The padded rows of the target mask are not empty: a padded position may look at the real ones. Nobody reads what comes
# out there, and a row without any allowed key would only make trouble (notebook 02).
#
# {{exercise Transformer}}
#
# Now wire it up. `__init__` is given and makes all parts, under the names that the check knows. You write the
# two masks, the two halves and `forward`:
#
# $$\text{memory} = \text{Encoder}(\text{dropout}(E_s + P),\ M_s) \qquad
#   \text{logits} = W_{\text{out}}\, \text{Decoder}(\text{dropout}(E_t + P),\ \text{memory},\ M_t,\ M_s)$$
#
# $E_s$ and $E_t$ are the embedded source and target ids, $P$ the position vectors, $M_s$ and $M_t$ the two masks. Two
# things to keep in mind. Padding may stand anywhere in a sentence, not only at its end. And what leaves the model
# are *logits*, not probabilities. `hint("Transformer")` helps if you are stuck.


# %% exercise Transformer
class Transformer(nn.Module):
    """An encoder-decoder that turns source ids and the targets so far into logits for the next targets."""

    def __init__(
        self,
        src_vocab: int,
        tgt_vocab: int,
        d_model: int,
        num_heads: int,
        d_ff: int,
        num_layers: int,
        dropout: float = 0.0,
        norm_first: bool = True,
        tie_weights: bool = False,
        pad_id: int = 0,
        max_len: int = 1024,
    ):
        super().__init__()
        self.pad_id = pad_id
        self.src_embedding = TokenEmbedding(src_vocab, d_model, pad_id)  # multiplies by √d_model itself
        self.tgt_embedding = TokenEmbedding(tgt_vocab, d_model, pad_id)
        self.positions = PositionalEncoding(d_model, max_len)  # gives x + position vectors
        self.dropout = nn.Dropout(dropout)
        self.encoder = Encoder(d_model, num_heads, d_ff, num_layers, dropout, norm_first)  # encoder(x, mask)
        self.decoder = Decoder(d_model, num_heads, d_ff, num_layers, dropout, norm_first)
        # decoder(x, memory, mask, memory_mask)
        self.output = nn.Linear(d_model, tgt_vocab, bias=False)
        self.apply(reference.initialise)
        if tie_weights:
            self.output.weight = self.tgt_embedding.table.weight
            if src_vocab == tgt_vocab:
                self.src_embedding.table = self.tgt_embedding.table

    def source_mask(self, src_ids: Tensor) -> Tensor:
        """src_ids: (batch, source). Returns: (batch, 1, source), True on real tokens."""
        ### BEGIN SOLUTION
        real = src_ids != self.pad_id  # (batch, source)
        return real[:, None, :]
        ### END SOLUTION

    def target_mask(self, tgt_ids: Tensor) -> Tensor:
        """tgt_ids: (batch, target). Returns: (batch, target, target), True on real tokens not in the future."""
        ### BEGIN SOLUTION
        real = tgt_ids != self.pad_id  # (batch, target)
        past = causal_mask(tgt_ids.shape[1])  # (target, target)
        return real[:, None, :] & past
        ### END SOLUTION

    def encode(self, src_ids: Tensor) -> Tensor:
        """src_ids: (batch, source). Returns: the memory (batch, source, d_model)."""
        ### BEGIN SOLUTION
        x = self.src_embedding(src_ids)  # (batch, source, d_model)
        x = self.dropout(self.positions(x))
        return self.encoder(x, self.source_mask(src_ids))
        ### END SOLUTION

    def decode(self, tgt_ids: Tensor, memory: Tensor, src_ids: Tensor) -> Tensor:
        """tgt_ids: (batch, target); memory: (batch, source, d_model), made from src_ids.
        Returns: logits (batch, target, tgt_vocab).
        """
        ### BEGIN SOLUTION
        x = self.tgt_embedding(tgt_ids)  # (batch, target, d_model)
        x = self.dropout(self.positions(x))
        x = self.decoder(x, memory, self.target_mask(tgt_ids), self.source_mask(src_ids))
        return self.output(x)  # (batch, target, tgt_vocab)
        ### END SOLUTION

    def forward(self, src_ids: Tensor, tgt_ids: Tensor) -> Tensor:
        """src_ids: (batch, source); tgt_ids: (batch, target), what the decoder is given. Returns: logits."""
        ### BEGIN SOLUTION
        memory = self.encode(src_ids)
        return self.decode(tgt_ids, memory, src_ids)
        ### END SOLUTION


# %% check Transformer
check(Transformer)

# %% [markdown]
# Let it run on our two sentences. (All pictures here are drawn with the course's own model, `reference.Transformer`.)

# %%
logits = model(src_ids, tgt_ids)  # (2, 6, number of target words)
print("logits:", tuple(logits.shape))
print("sum over the vocabulary, first three positions:", [round(v, 2) for v in logits[0, :3].sum(dim=-1).tolist()])
chances = logits[0, :3].softmax(dim=-1)
print("after a softmax:                               ", [round(v, 2) for v in chances.sum(dim=-1).tolist()])

weights = reference.cross_attention_weights(model, src_ids, tgt_ids)  # (layer, batch, head, target, source)
figure, axes = plt.subplots(1, 2, figsize=(8.8, 4.0))
show_matrix(
    weights[-1, 0].mean(dim=0),
    "sentence 0",
    rows="target word that asks",
    columns="source word that is asked",
    row_names=targets[0],
    column_names=sources[0],
    limits=(0, 0.65),
    ax=axes[0],
)
show_matrix(
    weights[-1, 1, :, :3].mean(dim=0),
    "sentence 1, the real targets",
    rows="target word that asks",
    columns="source word that is asked",
    row_names=targets[1],
    column_names=source_names,
    limits=(0, 0.65),
    ax=axes[1],
)
plt.suptitle("Cross-attention before any training, mean over the heads")
plt.show()

# %% [markdown]
# What to notice:
#
# - Each **row** is a probability distribution over the source words: with these weights the memory's vectors are
#   averaged for this target word. What an untrained row prefers is chance. Notebook 08 draws the same picture after
#   training, and then it shows which word translates which.
# - The padded columns have weight exactly 0.
# - A row of *logits* sums to whatever it likes. Probabilities come from a softmax, which the loss (notebook 08) or the
#   decoder loop (notebook 09) applies.

# %% [markdown]
# **Can it learn at all?** Training is the subject of notebook 08. But two sentences are learned by heart within
# seconds, and a model that cannot even do this has a part that is not connected. Each position is to give the word
# that follows.

# %%
torch.manual_seed(0)
learner = reference.Transformer(len(src_words), len(tgt_words), d_model=16, num_heads=2, d_ff=32, num_layers=2)
labels = to_ids(followers, tgt_words)
optimizer = torch.optim.Adam(learner.parameters(), lr=0.01)
for _ in range(60):
    logits = learner(src_ids, tgt_ids)
    loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=0)  # padding does not count
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

chances = learner(src_ids, tgt_ids).softmax(dim=-1).detach()  # (sentence, target, vocabulary)
figure, axes = plt.subplots(1, 2, figsize=(9.2, 3.8))
for ax, number in zip(axes, (0, 1), strict=True):
    show_matrix(
        chances[number, : len(targets[number])],
        f"sentence {number}: {' '.join(sources[number])}",
        rows="word that is given",
        columns="word that follows",
        row_names=targets[number],
        column_names=tgt_words,
        limits=(0, 1),
        ax=ax,
    )
plt.suptitle("Probabilities after 60 steps on two sentences")
plt.show()

# %% [markdown]
# *tapis* it is. Compare two pairs of rows. In sentence 0, *le* is given twice and followed by two different words: the
# decoder knows what came before. And after `<bos> le chat` the two sentences go on with *est* and with *dort*, though
# the decoder has been given the same three words. The difference can only have come from the source.

# %% [markdown]
# ## One table or three? And how to begin
#
# **Weight tying.** The target embedding has a row for each target word. The output layer has a row for each target word
# too: a word's logit is the dot product of the decoder's vector with that row. The paper uses *one* table for both, and
# since its two languages share a vocabulary, for the source embedding as well. Three tables become one.

# %%
for tie in (False, True):
    torch.manual_seed(0)
    both = reference.Transformer(1000, 1000, 64, 4, 256, 2, tie_weights=tie)
    tables = {
        id(p): p.numel() for p in (both.src_embedding.table.weight, both.tgt_embedding.table.weight, both.output.weight)
    }
    total = sum(p.numel() for p in both.parameters())
    print(f"tie_weights={tie!s:5}  tables: {len(tables)}, {sum(tables.values()):7,} numbers of {total:,} in all")

# %% [markdown]
# **Initialisation.** A model that knows nothing should give every word the same chance. Then its loss is
# $\ln V$: for 1000 words $\ln 1000 = 6.91$. Look at the loss of the very first batch. It costs nothing and tells you
# whether the numbers at the start have a sensible size. Here the matrices start with Xavier's
# rule (uniform, variance $2 / (\text{inputs} + \text{outputs})$), biases at 0, gains at 1, and the tables as
# $N(0, 1/d_{\text{model}})$, brought to size 1 by the factor $\sqrt{d_{\text{model}}}$ when they are looked up.

# %%
torch.manual_seed(0)
src, tgt, labels = (torch.randint(1, 1000, (8, 20)) for _ in range(3))


def first_loss(model):
    logits = model(src, tgt)
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten()).item(), logits.std().item()


fresh = reference.Transformer(1000, 1000, 64, 4, 256, 2)
print("as built:                 loss {:5.2f}, logits of size {:5.2f}".format(*first_loss(fresh)))
tied = reference.Transformer(1000, 1000, 64, 4, 256, 2, tie_weights=True)
print("tied:                     loss {:5.2f}, logits of size {:5.2f}".format(*first_loss(tied)))
for parameter in tied.parameters():
    nn.init.normal_(parameter)
print("every number from N(0, 1): loss {:4.1f}, logits of size {:5.2f}".format(*first_loss(tied)))
print(f"knowing nothing:          loss {math.log(1000):5.2f}")

# %% [markdown]
# As built, the loss is close to $\ln 1000$. Tied it is a little higher: rows of length 1 give logits of size 1, as
# notebook 05 has shown. With $N(0, 1)$ everywhere the model is sure of itself before it has learned anything, and
# sure of the wrong words.

# %% [markdown]
# ## How many parameters?
#
# A number that everybody quotes and that you can work out. Go through the parts:
#
# | part | numbers |
# |---|---|
# | a table with $R$ rows | $R \cdot d$ |
# | attention: $W_Q, W_K, W_V, W_O$ with biases | ? |
# | feed-forward network $d \to d_{\text{ff}} \to d$ with biases | ? |
# | LayerNorm: gain and bias | ? |
# | encoder layer | attention, network, two norms |
# | decoder layer | *two* attentions, network, three norms |
#
# The number of heads does not appear: the heads share out one $d \times d$ matrix. Sinusoidal positions do not appear
# either, since nothing in them is learned.
#
# {{exercise transformer_parameters}}
#
# $$N = R\,d + L_{\text{enc}}\,(\text{att} + \text{ff} + 2\,\text{norm})
#   + L_{\text{dec}}\,(2\,\text{att} + \text{ff} + 3\,\text{norm}) + \text{extra norms}$$


# %% exercise transformer_parameters
def transformer_parameters(
    table_rows: int, d_model: int, d_ff: int, encoder_layers: int, decoder_layers: int, extra_norms: int = 0
) -> int:
    """How many numbers a Transformer learns. Every linear map has a bias; the tables have none.

    table_rows: the rows of d_model numbers in all tables together (tokens, learned positions, segments, and the
    output layer's if it has a table of its own).
    encoder_layers: layers without cross-attention. decoder_layers: layers with it.
    extra_norms: norms outside of the layers.
    """
    ### BEGIN SOLUTION
    tables = table_rows * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norm = 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return tables + encoder_layers * encoder_layer + decoder_layers * decoder_layer + extra_norms * norm
    ### END SOLUTION


# %% check transformer_parameters
check(transformer_parameters)

# %% [markdown]
# Three well-known models. Two of them have only one stack: BERT is the encoder alone, GPT-2 the decoder
# alone, which without anything to cross-attend to has layers like an encoder's, with a causal mask. (It is often said
# that they "drop encoder and decoder". They drop one of the two.)
#
# - **The paper's base model**: 6 + 6 layers, $d = 512$, $d_{\text{ff}} = 2048$, one shared table of about 37 000 pieces
#   of words.
# - **BERT-large**: 24 layers, 16 heads, $d = 1024$, $d_{\text{ff}} = 4096$; tables for 30 522 tokens, 512 learned
#   positions and 2 segments; one norm behind the tables; and a small *pooler*, one more $d \times d$ map with bias.
# - **GPT-2 XL**: 48 layers, $d = 1600$, $d_{\text{ff}} = 6400$; 50 257 tokens, 1024 learned positions; one norm at the
#   end; output tied.

# %%
d = 1024
pooler = d * d + d
well_known = {
    "base model (2017)": (37_000, 512, 2048, 6, 6, 0),
    "BERT-large": (30_522 + 512 + 2, 1024, 4096, 24, 0, 1),
    "GPT-2 XL": (50_257 + 1024, 1600, 6400, 48, 0, 1),
}
said = {"base model (2017)": "65 million", "BERT-large": "340 million", "GPT-2 XL": "1.5 billion"}
print(f"{'':18} {'counted':>15}   said to have")
for name, sizes in well_known.items():
    count = reference.transformer_parameters(*sizes) + (pooler if name == "BERT-large" else 0)
    print(f"{name:18} {count:15,}   {said[name]}")

torch.manual_seed(0)
with torch.device("meta"):  # shapes without memory: so even a large model is built at once
    base = reference.Transformer(37_000, 37_000, 512, 8, 2048, 6, norm_first=False, tie_weights=True)
print(f"\nthe base model, built and counted: {sum(p.numel() for p in base.parameters()):,}")

# %% [markdown]
# For BERT and GPT-2 the quoted numbers are ours, roughly rounded. For the base model two million are missing. The paper
# says "about 37 000" and gives no breakdown, so they stay missing. Where are all these parameters?

# %% figure
shares = {"tables": [], "attention": [], "feed-forward": [], "norms": []}
for rows, d, d_ff, encoder_layers, decoder_layers, extra in well_known.values():
    attentions = encoder_layers + 2 * decoder_layers
    layers = encoder_layers + decoder_layers
    shares["tables"].append(rows * d)
    shares["attention"].append(attentions * 4 * (d * d + d))
    shares["feed-forward"].append(layers * (2 * d * d_ff + d_ff + d))
    shares["norms"].append((2 * encoder_layers + 3 * decoder_layers + extra) * 2 * d)
totals = [sum(parts) for parts in zip(*shares.values(), strict=True)]
figure, ax = plt.subplots(figsize=(8, 2.8))
start = [0.0] * len(totals)
for (part, counts), colour in zip(shares.items(), COLOURS, strict=False):
    percent = [100 * count / total for count, total in zip(counts, totals, strict=True)]
    ax.barh(list(well_known), percent, left=start, color=colour, label=part, height=0.55)
    for row, (value, offset) in enumerate(zip(percent, start, strict=True)):
        if value > 4:
            ax.text(offset + value / 2, row, f"{value:.0f} %", ha="center", va="center", color="white", fontsize=9)
    start = [a + b for a, b in zip(start, percent, strict=True)]
ax.set(title="Where the parameters are", xlabel="share of all parameters in %", xlim=(0, 100))
ax.invert_yaxis()
ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.28), ncols=4, frameon=False)
plt.show()

# %% [markdown]
# The norms cannot be seen: a few in ten thousand. With $d_{\text{ff}} = 4d$ a feed-forward network has $8d^2$ numbers
# and an attention $4d^2$; so two thirds of a layer without cross-attention are feed-forward network.
#
# ## The same model, written by somebody else
#
# How can you be sure that your model is *the* Transformer? Somebody else has written one: `torch.nn.Transformer`. Two
# models that were built at random cannot be compared. But if you copy the weights of one into the other, both must
# give the same numbers, to the last digits. That is a strong test: nearly every mistake in wiring would show.
#
# The weights have other names there, and $W_Q, W_K, W_V$ are packed into one tall matrix:

# %%
with torch.device("meta"):
    ours = reference.Transformer(9, 9, 8, 2, 16, 1, norm_first=False)
    theirs = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
print("ours, the decoder layer:")
for name, tensor in ours.state_dict().items():
    if name.startswith("decoder.layers.0.") and name.endswith(("weight", "gain")):
        print(f"    {name:48} {tuple(tensor.shape)}")
print("torch's, the decoder layer:")
for name, tensor in theirs.state_dict().items():
    if name.startswith("decoder.layers.0.") and name.endswith("weight"):
        print(f"    {name:48} {tuple(tensor.shape)}")

# %% [markdown]
# {{exercise torch_state}}
#
# Write the translation: a dict of tensors in, a dict of tensors out. Embeddings and the output layer are left out:
# `nn.Transformer` has none. The plain renamings are given in `TORCH_NAMES`.
#
# $$W_{\text{in\_proj}} = \begin{pmatrix} W_Q \\ W_K \\ W_V \end{pmatrix} \quad (3d \times d)$$

# %% exercise torch_state
TORCH_NAMES = {
    ".attention.": ".self_attn.",
    ".self_attention.": ".self_attn.",
    ".cross_attention.": ".multihead_attn.",
    ".w_o.": ".out_proj.",
    ".feed_forward.w_1.": ".linear1.",
    ".feed_forward.w_2.": ".linear2.",
    ".norm_1.": ".norm1.",
    ".norm_2.": ".norm2.",
    ".norm_3.": ".norm3.",
    ".gain": ".weight",
}


def torch_state(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The parameters of both stacks under the names that nn.Transformer gives them.

    state: name -> tensor, the state dict of a Transformer: "encoder.layers.0.attention.w_q.weight" and so on.
    Returns: name -> tensor. "….w_q.weight", "….w_k.weight" and "….w_v.weight" become "….in_proj_weight", one below the
    other, and their biases "….in_proj_bias".
    """
    ### BEGIN SOLUTION
    result = {}
    for name, value in state.items():
        if not name.startswith(("encoder.", "decoder.")):
            continue
        if ".w_k." in name or ".w_v." in name:
            continue
        if ".w_q." in name:
            k = state[name.replace(".w_q.", ".w_k.")]
            v = state[name.replace(".w_q.", ".w_v.")]
            value = torch.cat([value, k, v], dim=0)  # (3 · d_model, d_model)
            name = name.replace(".w_q.", ".in_proj_")
        for ours, theirs in TORCH_NAMES.items():
            name = name.replace(ours, theirs)
        result[name] = value
    return result
    ### END SOLUTION


# %% check torch_state
check(torch_state)

# %% [markdown]
# Now compare. Three things differ between the two and have to be put right first:
#
# - `nn.Transformer` takes vectors, not ids, and leaves all masks to the caller;
# - its masks are True where attention is **hidden**;
# - it ends each stack with one more norm also in post-norm mode. The paper has none there, so it is taken out.

# %%
SOURCE = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 2, 0, 0]])
TARGET = torch.tensor([[1, 3, 5, 7], [1, 4, 0, 0]])
for norm_first in (False, True):
    torch.manual_seed(0)
    ours = reference.Transformer(10, 10, 16, 2, 24, 3, norm_first=norm_first).double()
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.3)  # so that gains are not 1 and biases not 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = nn.Transformer(16, 2, 3, 3, 24, 0.0, batch_first=True, norm_first=norm_first).double()
    if not norm_first:
        theirs.encoder.norm = theirs.decoder.norm = None
    theirs.load_state_dict(reference.torch_state(ours.state_dict()))
    hidden = theirs(
        ours.positions(ours.src_embedding(SOURCE)),
        ours.positions(ours.tgt_embedding(TARGET)),
        tgt_mask=~causal_mask(4),
        src_key_padding_mask=SOURCE == 0,
        tgt_key_padding_mask=TARGET == 0,
        memory_key_padding_mask=SOURCE == 0,
    )
    difference = (ours.output(hidden) - ours(SOURCE, TARGET))[TARGET != 0].abs().max()
    print(f"norm_first={norm_first!s:5}  largest difference at real positions: {difference:.1e}")

# %% [markdown]
# The difference is the rounding of the last digit in double precision. The two are the same function.
#
# ## "It runs, so it must be right"
#
# Most code comes without a twin to compare with. What people do then is a *smoke test*: feed random numbers of the
# right shape and see whether smoke comes out.
#
# Before you run the next cell, **predict the shape** of the result: 16 recordings, 100 frames each with 80 numbers,
# labels of length 50, a vocabulary of 26.

# %%
torch.manual_seed(0)
frames = torch.randn(16, 100, 80)
labels = torch.randint(0, 26, (16, 50))
frontend = nn.Linear(80, 64)  # sound is no table of words: a linear layer takes the embedding's place
encoder, decoder = Encoder(64, 4, 128, 2), Decoder(64, 4, 128, 2)
label_table, output = nn.Embedding(26, 64), nn.Linear(64, 26)
logits = output(decoder(label_table(labels), encoder(frontend(frames))))
print(tuple(logits.shape))

# %% [markdown]
# It is (16, 50, 26): as many rows as there are *labels*, not frames. No smoke. And yet:
#
# - no lengths and no masks anywhere: padding would be looked at, and each label sees the labels after it;
# - no positions: played backwards, the sound would give the same logits;
# - the labels go in as they are, with no start symbol before them: position $t$ sees label $t$, which it is to predict;
# - 26 ids for 26 letters leave none for start, end and padding;
# - no scaling by $\sqrt{d_{\text{model}}}$;
# - had we drawn lengths with `torch.randint(1, 100, (16,))`, none could have been 100: the upper end is left out.
#
# A smoke test proves that the shapes fit. All these mistakes keep the shapes. Properties find them. Here are five that
# you can ask of any model of this kind:
#
# | property | finds |
# |---|---|
# | what a position may not see can be changed without effect | forgotten masks, in every attention |
# | a sentence gives the same alone and in a padded batch | padding that leaks, `batch_first` missing |
# | random labels cannot be learned: the loss stays at $\ln V$ | labels that were not shifted, leaks of the future |
# | the loss of the first batch is about $\ln V$ | bad sizes at the start |
# | two sentences can be learned by heart | parts that are not connected, weights that no optimiser sees |
#
# The last two you have seen above. Now the second one. Sentence 1 of our batch is *the cat sleeps*, with three places
# of padding:

# %%
alone = model(src_ids[1:, :3], tgt_ids[1:, :3])
together = model(src_ids, tgt_ids)[1:, :3]
print(f"right model:               largest difference {(alone - together).abs().max():.1e}")


class ForgetsPadding(reference.Transformer):
    """Runs, and is wrong."""

    def source_mask(self, src_ids):
        return torch.ones(len(src_ids), 1, src_ids.shape[1], dtype=torch.bool)


wrong = ForgetsPadding(len(src_words), len(tgt_words), 16, 2, 32, 2).eval()
wrong.load_state_dict(model.state_dict())
together = wrong(src_ids, tgt_ids)[1:, :3]
print(f"source mask forgotten:     largest difference {(alone - together).abs().max():.1e}")

# %% [markdown]
# (Not 0 but about $10^{-6}$ in the right model: sums over six numbers and over three are rounded differently.)
#
# ## An instrument that finds leaks
#
# Now the first property, for every pair at once: **which outputs depend on which inputs?** Ids have no gradient, but
# there is a plainer way. Replace one token, run the model again, and see which outputs have changed. What is hidden
# has weight exactly 0, so a hidden token changes nothing, not even the last digit.
#
# {{exercise find_the_leak}}
#
# $$L_{ij} = \big[\, f(\text{ids with token } j \text{ replaced})_i \ne f(\text{ids})_i \,\big]$$


# %% exercise find_the_leak
def find_the_leak(function, ids: Tensor, vocab_size: int) -> Tensor:
    """Which output positions change when one input token is replaced by another?

    function: takes ids (batch, time), gives (batch, time', features), such as `lambda ids: model(src, ids)`.
    ids: (time,), one sentence. Each token in its turn is replaced by some other token from 0 to vocab_size - 1.
    Returns: (time', time) boolean, True where output i depends on input j.
    """
    ### BEGIN SOLUTION
    before = function(ids[None])[0]  # (time', features)
    columns = []
    for j in range(len(ids)):
        changed = ids.clone()
        changed[j] = ids[j] + 1 if ids[j] + 1 < vocab_size else ids[j] - 1
        after = function(changed[None])[0]  # (time', features)
        moved = (after != before).any(dim=-1)  # (time',)
        columns.append(moved)
    return torch.stack(columns, dim=1)  # (output, input)
    ### END SOLUTION


# %% check find_the_leak
check(find_the_leak)

# %% [markdown]
# Point it at four decoders. All of them run, all of them give logits of the right shape. One is right.


# %%
class AcceptsAndForgets(reference.Transformer):
    """Has an argument for the mask and never uses it: you meet this in published code."""

    def __init__(self, *sizes, mask=True):
        super().__init__(*sizes)

    def target_mask(self, tgt_ids):
        return (tgt_ids != self.pad_id)[:, None, :]


class OneTooMany(reference.Transformer):
    """The diagonal of the causal mask is off by one."""

    def target_mask(self, tgt_ids):
        n = tgt_ids.shape[1]
        return torch.ones(n, n, dtype=torch.bool).tril(diagonal=1)


class TurnedRound(reference.Transformer):
    """triu instead of tril."""

    def target_mask(self, tgt_ids):
        n = tgt_ids.shape[1]
        return torch.ones(n, n, dtype=torch.bool).triu()


sentence = torch.tensor([1, 5, 3, 7, 2, 4])
figure, axes = plt.subplots(1, 4, figsize=(9, 2.8))
for ax, kind, title in zip(
    axes,
    (reference.Transformer, AcceptsAndForgets, OneTooMany, TurnedRound),
    ("right", "mask=True,\nnever used", "diagonal\noff by one", "turned round"),
    strict=True,
):
    torch.manual_seed(0)
    decoder_model = kind(9, 9, 16, 2, 32, 1).double().eval()
    seen = reference.find_the_leak(lambda ids, m=decoder_model: m(SOURCE[:1], ids), sentence, 9)
    show_matrix(seen.float(), title, rows="output", columns="input replaced", numbers=False, limits=(0, 1), ax=ax)
plt.suptitle("Yellow: the output depends on this input token. Above the diagonal nothing may be yellow")
plt.show()

# %% [markdown]
# **`batch_first` missing.** The silent bug of notebook 06: torch's own layers want `(time, batch, feature)` unless they
# are told otherwise, and take your sentences for time steps. The same experiment between *sentences* instead of
# positions needs no look at the code:

# %%
x = torch.randn(4, 5, 16)  # four sentences of five words
changed = x.clone()
changed[2] += 1.0  # sentence 2 alone
for batch_first in (True, False):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch_layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=batch_first)
    moved = ((torch_layer(changed) - torch_layer(x)).abs() > 1e-6).flatten(1).any(dim=1)
    print(
        f"batch_first={batch_first!s:5}  sentences that change when sentence 2 is changed:",
        moved.nonzero().flatten().tolist(),
    )

# %% [markdown]
# **Labels that were not shifted.** The decoder's input has to be the labels moved by one place, with a start symbol in
# front. If the labels go in as they are, position $t$ sees label $t$ through its own embedding. No mask helps: each
# position may see itself. The model learns to copy its input, and the loss looks wonderful.
#
# Random labels show it. Nobody can predict them, so no honest loss can go below $\ln V$. Here are 12 equally likely
# labels: $\ln 12 = 2.485$.


# %%
def train_on_random_labels(shift, steps=250):
    torch.manual_seed(0)
    small = reference.Transformer(13, 13, 32, 4, 64, 1, max_len=16)
    optimizer = torch.optim.Adam(small.parameters(), lr=3e-3)
    losses = []
    for _ in range(steps):
        src, labels = torch.randint(1, 13, (24, 5)), torch.randint(1, 13, (24, 8))
        start = torch.ones(24, 1, dtype=torch.long)
        inputs = torch.cat([start, labels[:, :-1]], dim=1) if shift else labels
        loss = F.cross_entropy(small(src, inputs).flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


unshifted, shifted = train_on_random_labels(shift=False), train_on_random_labels(shift=True)
figure, ax = plt.subplots(figsize=(7, 3.2))
ax.plot(shifted, label="shifted")
ax.plot(unshifted, "--", label="not shifted")
ax.axhline(math.log(12), color=COLOURS[7], linewidth=1, linestyle=":", label="ln 12: pure guessing")
ax.set(title="Random labels: only a model that cheats gets below ln 12", xlabel="step", ylabel="loss", ylim=(0, 3.3))
ax.legend(loc="center right", frameon=False)
plt.show()
print(f"loss after 250 steps: shifted {shifted[-1]:.3f}, not shifted {unshifted[-1]:.4f}, ln 12 = {math.log(12):.3f}")

# %% [markdown]
# **Loud mistakes.** A table of positions has an end, and so has a vocabulary. What lies beyond gives an error. It
# should be one that a person can read, long before torch says `index out of range in self`. And a sentence of nothing
# but padding should not get through at all:

# %%
short = reference.Transformer(9, 9, 16, 2, 32, 1, max_len=4)
for source in (torch.tensor([[1, 2, 3, 4, 5]]), torch.tensor([[1, 2, 9]]), torch.tensor([[0, 0, 0]])):
    try:
        short(source, torch.tensor([[1, 2]]))
    except ValueError as error:
        print("•", error)

# %% [markdown]
# ## When the input is not text
#
# An encoder is a feature embedding, positions and N layers. For text the feature embedding is a table. For sound it
# is something else: the wave itself, or a description of each hundredth of a second (80 filter-bank energies,
# "fbank", or the MFCC that are computed from them) goes through a small network, the *front end*: a linear layer, or
# a 1-D convolution, or a stack of them (a ResNet). The decoder still writes words and keeps its table.
#
# A convolution with stride 2 halves the number of frames, and attention over half as many frames costs a
# quarter. But now the **lengths change too**, and the mask has to be built from the lengths *behind* the front end.
# A window of `kernel` frames moves on by `stride`. How many of its places lie wholly within a recording of 7 frames,
# for kernel 3 and stride 2?

# %% figure
figure, ax = plt.subplots(figsize=(7, 2.2))
for frame in range(9):
    real = frame < 7
    ax.add_patch(plt.Rectangle((frame, 0), 0.92, 0.6, facecolor=COLOURS[4] if real else "#dddddd"))
    ax.text(frame + 0.46, 0.3, str(frame) if real else "pad", ha="center", va="center", fontsize=9)
for window, start in enumerate((0, 2, 4, 6)):
    fits = start + 3 <= 7
    height = -0.35 - 0.3 * window
    ax.plot([start, start + 2.92], [height, height], color=COLOURS[0] if fits else COLOURS[1], linewidth=5)
    ax.text(
        start + 3.1,
        height,
        f"window {window}" + ("" if fits else ": reaches into the padding"),
        va="center",
        fontsize=9,
    )
ax.set(xlim=(-0.2, 12.5), ylim=(-1.6, 0.8), title="Kernel 3, stride 2, a recording of 7 frames: three windows fit")
ax.axis("off")
plt.show()

# %% [markdown]
# {{exercise subsampled_lengths}}
#
# $$\text{length}' = \left\lfloor \frac{\text{length} - \text{kernel}}{\text{stride}} \right\rfloor + 1, \quad
#   \text{but never below } 0$$


# %% exercise subsampled_lengths
def subsampled_lengths(lengths: Tensor, kernel: int, stride: int) -> Tensor:
    """How many frames of each recording are left after a convolution over time without padding at the ends.

    Only windows that lie wholly within the recording count. A recording shorter than the kernel has none: 0.
    lengths: (batch,) whole numbers. Returns: (batch,) whole numbers.
    """
    ### BEGIN SOLUTION
    last_start = lengths - kernel
    windows = torch.div(last_start, stride, rounding_mode="floor") + 1
    return windows.clamp(min=0)
    ### END SOLUTION


# %% check subsampled_lengths
check(subsampled_lengths)

# %% [markdown]
# What happens without it? Two recordings of 60 and 100 frames; the front end makes 50 frames out of 100. The mask
# from the *old* lengths hides everything from frame 60 or 100 on, and of 50 frames none is that far out: it hides
# nothing. No error, no warning. Property one finds it: put other numbers into the padding and see whether the encoder
# notices.

# %%
torch.manual_seed(0)
frontend = nn.Conv1d(80, 32, kernel_size=2, stride=2)
positions, encoder = PositionalEncoding(32, 128), Encoder(32, 4, 64, 1)
lengths = torch.tensor([60, 100])
recordings = torch.randn(2, 100, 80)
noisy = recordings.clone()
noisy[0, 60:] = torch.randn(40, 80)  # other numbers in the padding


def encode(recordings, lengths):
    x = frontend(recordings.transpose(1, 2)).transpose(1, 2)  # (batch, 50, 32)
    mask = (torch.arange(x.shape[1]) < lengths[:, None])[:, None, :]  # (batch, 1, 50)
    return encoder(positions(x), mask), mask


for name, used in (
    ("before the front end", lengths),
    ("behind the front end", reference.subsampled_lengths(lengths, kernel=2, stride=2)),
):
    first, mask = encode(recordings, used)
    second, _ = encode(noisy, used)
    change = (first - second)[0, :30].abs().max()
    hidden_keys = (~mask[:, 0]).sum(dim=1).tolist()
    print(f"lengths {name} {used.tolist()!s:10} hidden keys {hidden_keys!s:8} real frames change by {change:.1e}")

# %% [markdown]
# A guard would have made it loud. The course's `padding_mask` refuses lengths that are longer than what they describe:

# %%
try:
    padding_mask(lengths, 50)
except ValueError as error:
    print(error)

# %% [markdown]
# ## Why not a recurrent network or a convolution?
#
# How far does information have to travel? Take two words that are $n$ positions apart.
#
# - A **recurrent network** passes it on from step to step: $n$ times through one vector of fixed size. And the steps
#   cannot be done at once: step $i$ waits for step $i - 1$.
# - A **convolution** does all positions at once, but one layer of kernel $k$ reaches $(k-1)/2$ positions to each
#   side. For more you need depth.
# - **Attention** connects every pair in one layer, all at once. It pays with $n^2$ scores.
#
# | layer | operations | steps one after the other | longest path between two positions |
# |---|---|---|---|
# | self-attention | $n^2 d$ | 1 | 1 |
# | recurrent | $n d^2$ | $n$ | $n$ |
# | convolution, kernel $k$ | $k n d^2$ | 1 | $2n / (k - 1)$ layers, or about $\log_k n$ with growing gaps |
#
# (For self-attention only the scores and the weighted sums are counted. The projections add $4nd^2$: notebook 01.)
#
# The first two columns come from counting, the last one can be seen. The same instrument, for networks on vectors:
# change one position and see who notices.

# %%
n, d = 12, 8
torch.manual_seed(0)
lstm = nn.LSTM(d, d, batch_first=True).double()
attention = Encoder(d, 2, 16, 1).double()


def convolutions(layers):
    stack = nn.Sequential(*(nn.Conv1d(d, d, 3, padding=1) for _ in range(layers))).double()
    return lambda x: stack(x.transpose(1, 2)).transpose(1, 2)


def reach(network):
    """(output, input): True where the output depends on the input."""
    x = torch.randn(1, n, d, dtype=torch.float64)
    before = network(x)[0]
    columns = []
    for j in range(n):
        changed = x.clone()
        changed[0, j] = torch.randn(d)  # not "+= 1": a norm takes away what is added to all features alike
        columns.append((network(changed)[0] != before).any(dim=-1))
    return torch.stack(columns, dim=1)


figure, axes = plt.subplots(1, 4, figsize=(9, 2.7))
for ax, network, title in zip(
    axes,
    (convolutions(1), convolutions(3), lambda x: lstm(x)[0], attention),
    ("1 convolution,\nkernel 3", "3 convolutions,\nkernel 3", "1 LSTM layer\n(12 steps)", "1 attention layer"),
    strict=True,
):
    show_matrix(reach(network).float(), title, rows="output", columns="input", numbers=False, limits=(0, 1), ax=ax)
    ax.set(xticks=[0, 5, 11], yticks=[0, 5, 11])
plt.suptitle("Who can see whom (yellow: depends on it)")
plt.show()

# %% [markdown]
# One convolution reaches one position to each side, three reach three. The LSTM sees the past, and needs a step for
# each position of it. Attention sees everything in one layer. Now for larger distances, by the formulas of the table:

# %%
distances = list(range(1, 257))
figure, ax = plt.subplots(figsize=(7, 3.6))
ax.plot(distances, distances, label="recurrent: n steps")
ax.plot(
    distances,
    [math.ceil(2 * m / (3 - 1)) for m in distances],
    ":",
    linewidth=3.5,
    label="convolution, kernel 3: n layers",
)
ax.plot(distances, [math.ceil(2 * m / (9 - 1)) for m in distances], "--", label="convolution, kernel 9: n / 4 layers")
ax.plot(
    distances,
    [next(layers for layers in range(1, 20) if (3**layers - 1) // 2 >= m) for m in distances],
    "-.",
    label="convolution, kernel 3, gaps 1, 3, 9, …",
)
ax.plot(distances, [1] * len(distances), label="attention: 1 layer")
ax.set(
    title="How long is the path between two positions?",
    xlabel="distance between the two positions",
    ylabel="steps or layers on the way",
    xscale="log",
    yscale="log",
    ylim=(0.7, 400),
)
ax.legend(frameon=False, fontsize=8)
plt.show()

# %% [markdown]
# So to attention all distances are alike: without position vectors a neighbour and a word 200 places away could not
# be told apart. Is attention without positions really blind to order? Measure it: exchange the first two tokens, and
# look at the output for the last one.

# %%
print("change of the last output when the first two tokens change places, no position vectors")
for layers in (1, 2, 3):
    for name, mask in (("everybody sees all", None), ("causal mask", causal_mask(5))):
        torch.manual_seed(0)
        stack = Encoder(16, 2, 32, layers, norm_first=False).double()
        x = torch.randn(1, 5, 16, dtype=torch.float64)
        change = (stack(x, mask) - stack(x[:, [1, 0, 2, 3, 4]], mask))[0, -1].abs().max()
        print(f"  {layers} layer(s), {name:18} {change:.2f}")

# %% [markdown]
# With a causal mask and two layers or more, the order does come through. The *mask* is not symmetric: token 1 has
# seen token 0 and not the other way round, and the second layer reads what the first has made of them. Statements like
# "attention ignores order" need their conditions.
#
# ## Made to be deep
#
# Most other choices in the design serve depth. One is that a layer has few pieces that are not linear. A piece $f$ is
# linear if $f(x + y) = f(x) + f(y)$. Guess which of these are, then run the cell.

# %%
torch.manual_seed(0)
x, y = torch.randn(2, 5, 8, dtype=torch.float64)  # two inputs of 5 positions with 8 features
matrix, given = torch.randn(8, 8, dtype=torch.float64), torch.rand(5, 5, dtype=torch.float64)
pieces = {
    "projection": lambda x: x @ matrix,
    "scores": lambda x: x @ matrix @ x.T,
    "softmax": lambda x: x.softmax(dim=-1),
    "weighted sum with given weights": lambda x: given @ x,
    "residual sum with a projection": lambda x: x + x @ matrix,
    "norm": lambda x: F.layer_norm(x, (8,)),
    "ReLU": lambda x: x.relu(),
}
for name, piece in pieces.items():
    print(f"{name:32}", "linear" if torch.allclose(piece(x + y), piece(x) + piece(y)) else "not linear")

# %% [markdown]
# The scores (products of two projections), the softmax, the norm and the ReLU; the rest is linear.
#
# It is sometimes added that linear maps "preserve the gradient perfectly". Notebook 05 has shown that they do not, and
# that residual paths do better. Is that still so for whole blocks, with attention and networks in them?

# %%
depths = [1, 2, 4, 8, 12, 16, 20, 24]


def gradient_norm(make):
    norms = []
    for depth in depths:
        torch.manual_seed(0)
        x = torch.randn(2, 5, 64, requires_grad=True)
        result = make(depth)(x)
        (result * torch.randn_like(result)).sum().backward()
        norms.append(x.grad.norm().item())
    return norms


def linears(depth):
    return nn.Sequential(*(nn.Linear(64, 64) for _ in range(depth)))


curves = {
    "linear layers alone": gradient_norm(linears),
    "Transformer blocks, post-norm": gradient_norm(lambda depth: Encoder(64, 4, 256, depth, norm_first=False)),
    "Transformer blocks, pre-norm": gradient_norm(lambda depth: Encoder(64, 4, 256, depth, norm_first=True)),
}
figure, ax = plt.subplots(figsize=(7, 3.2))
for (name, norms), style in zip(curves.items(), ("o-", "s--", "^:"), strict=True):
    ax.plot(depths, norms, style, label=name)
ax.set(title="What is left of the gradient at the input", xlabel="layers", ylabel="norm of the gradient", yscale="log")
ax.legend(frameon=False)
plt.show()
print(
    f"24 linear layers: {curves['linear layers alone'][-1]:.1e};",
    "24 blocks:",
    f"{curves['Transformer blocks, post-norm'][-1]:.0f}",
)

# %% [markdown]
# It is. The **residual path** carries the gradient, and the norms keep its size; not the linearity of the rest. (That
# deep post-norm stacks train badly without a warm-up comes from their *last* layers: notebook 05.)
#
# ## A question
#
# A colleague has written a model that turns sound into text. After 300 steps on a new, difficult corpus it shows a
# training loss of 0.002. "It runs, and the loss is fine," says the colleague. Which two mistakes do you suspect
# first, and with which experiment would you tell them apart? (Three or four sentences.)

# %% answer near_zero_loss 2 [markdown]
# ### BEGIN SOLUTION
# Either the labels go into the decoder without being shifted, so that each position sees the very label it is to
# predict, or the causal mask is missing (or turned round), so that it sees it one place further on. Training on
# random labels shows that there is a leak: the loss falls below ln V. find_the_leak tells the two apart: with a
# missing mask there are True entries above the diagonal; with unshifted labels the matrix is clean, since a position
# may see itself, and the mistake is in what the decoder is given and compared with.
# ### END SOLUTION

# %% [markdown]
# ## What you can do now
#
# - You can wire a whole Transformer with all masks built inside, and say what each of the three attentions hides and
#   why.
# - You can count a model's parameters from its sizes, and check the numbers that are quoted.
# - You can copy weights between two implementations and use one to prove the other.
# - You can test a model by properties: padding has no influence, the future cannot be seen, random labels cannot be
#   learned, sentences do not meet. You have an instrument that shows who sees whom.
# - You know what changes when the input is sound: the front end, and with it the lengths.
#
# Reading: Vaswani et al. 2017, *Attention is all you need*, sections 3 and 4 (the table of path lengths is theirs);
# Press and Wolf 2017 on tying input and output embeddings; Glorot and Bengio 2010 on initialisation; Devlin et al.
# 2019 (BERT) and Radford et al. 2019 (GPT-2) for the sizes counted above; Xiong et al. 2020 on where the norms stand.
