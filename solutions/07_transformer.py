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
# All the parts are ready. You join them into the whole model, count its parameters, and show that it computes the same
# as `torch.nn.Transformer`. A wrong model runs as smoothly as a right one, so you build a tool that shows which output
# depends on which input. At the end, *your* Transformer translates.

# %% setup
import math
import warnings

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from matplotlib.patches import FancyBboxPatch
from torch import Tensor, nn

from course_lib import check, hint, solution, yours
from course_lib import transformer as reference
from course_lib.encoder_decoder import Decoder, Encoder
from course_lib.interactive import attention_explorer, translation_attention
from course_lib.masks import causal_mask
from course_lib.plotting import PARTS, show_map, show_matrix, use_course_style
from course_lib.positions import PositionalEncoding
from course_lib.settings import course_device
from course_lib.start_here import pad_batch
from course_lib.sublayers import TokenEmbedding
from course_lib.translation import BOS, EOS, PAD, WEIGHTS, english_vocabulary, french_vocabulary, translate

torch.manual_seed(0)
use_course_style()
device = course_device()

# %% figure Where this notebook is on the map
show_map("07_transformer")

# %% [markdown]
# ## Three attentions, two masks
#
# Follow *the cat is on the mat* through the model. With an end mark it becomes seven ids, then seven vectors, then
# seven vectors with positions. The {{term encoder}} returns the {{term memory}}: again seven vectors. The
# {{term decoder}} has been given a start mark and *le chat est sur le*, and its {{term cross-attention}} looks at the
# memory. The output layer turns every decoder position into one number per word of the target {{term vocabulary}}: the
# {{term logits}}. Those of the last position are about the word that follows *le*. It should be *tapis*.
#
# Each of the three attentions has to know what to hide. So far the caller has made the masks, and callers forget. The
# model has the ids and knows the id of the {{term padding}}, so from now on it builds its {{term mask|masks}} itself.
#
# | attention | queries | keys | hidden |
# |---|---|---|---|
# | encoder | source | source | padding of the source |
# | decoder, self | target | target | padding of the target, and the future |
# | decoder, cross | target | source | padding of the source |
#
# Two of them hide the same thing, so two masks are enough: a source mask `(batch, 1, source)`, the same for every
# query, and a target mask `(batch, target, target)`.

# %% figure Where the masks go
figure, ax = plt.subplots(figsize=(8.6, 6.2))


def box(x, y, text, part, width=2.9, height=0.62):
    ax.add_patch(FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0.05", facecolor=PARTS[part]))
    colour = "white" if part in ("positions", "output", "mask") else "black"
    ax.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=9, color=colour)


def arrow(start, end, **style):
    ax.annotate("", xy=end, xytext=start, arrowprops={"arrowstyle": "->", "lw": 1.3, **style})


left, right, width = 0.4, 6.2, 2.9
for base, name, ids in ((left, "source", "src_ids  (batch, source)"), (right, "target", "tgt_ids  (batch, target)")):
    middle = base + width / 2
    ax.text(middle, 0.1, ids, ha="center", fontsize=9)
    box(base, 0.75, f"{name} embedding · √d_model", "embedding")
    box(base, 1.75, "+ positions, dropout", "positions")
    arrow((middle, 0.35), (middle, 0.68))
    arrow((middle, 1.45), (middle, 1.68))
    arrow((middle, 2.45), (middle, 2.98))
for base, height, part in ((left, 2.0, "encoder"), (right, 2.95, "decoder")):
    style = {"boxstyle": "round,pad=0.05", "fill": False, "edgecolor": PARTS[part], "linewidth": 2}
    ax.add_patch(FancyBboxPatch((base - 0.2, 2.85), width + 0.4, height, **style))
box(left, 3.05, "self-attention", "attention")
box(left, 4.0, "feed-forward", "feed_forward")
box(right, 3.05, "self-attention", "attention")
box(right, 4.0, "cross-attention", "attention")
box(right, 4.95, "feed-forward", "feed_forward")
for base, heights in ((left, (3.72,)), (right, (3.72, 4.67))):
    for height in heights:
        arrow((base + width / 2, height), (base + width / 2, height + 0.25))
ax.text(left - 0.5, 3.85, "N layers", rotation=90, ha="center", va="center", fontsize=8)
ax.text(right + width + 0.5, 4.3, "N layers", rotation=90, ha="center", va="center", fontsize=8)
arrow((left + width / 2, 4.9), (left + width / 2, 5.35))
ax.text(left + width / 2, 5.42, "memory (batch, source, d_model)", ha="center", fontsize=9)
arrow((left + width / 2 + 1.5, 5.35), (right - 0.05, 4.45), connectionstyle="arc3,rad=-0.15")
ax.text(5.35, 5.3, "keys and values", ha="center", fontsize=8)
box(4.05, 3.35, "source mask", "mask", width=1.2, height=0.42)
arrow((3.98, 3.5), (left + width + 0.08, 3.4), color=PARTS["mask"])
arrow((5.3, 3.7), (right - 0.08, 4.15), color=PARTS["mask"])
box(4.05, 2.45, "target mask", "mask", width=1.2, height=0.42)
arrow((5.3, 2.75), (right - 0.08, 3.25), color=PARTS["mask"])
box(right, 6.2, "output layer", "output")
arrow((right + width / 2, 5.85), (right + width / 2, 6.14))
arrow((right + width / 2, 6.9), (right + width / 2, 7.1))
ax.text(right + width / 2, 7.18, "logits (batch, target, tgt_vocab)", ha="center", fontsize=9)
ax.set(xlim=(-0.4, 9.9), ylim=(-0.1, 7.5), title="The Transformer of 2017 (residual paths and norms not drawn)")
ax.axis("off")
plt.show()

# %%
english, french = english_vocabulary(), french_vocabulary()  # of the translator at the end of this notebook
sources, answers = ["the cat is on the mat", "the cat"], ["le chat est sur le tapis", "le chat"]
src_ids, _ = pad_batch([english.encode(text.split()) for text in sources], PAD)  # (2, 7), with <eos> at the end
labels, _ = pad_batch([french.encode(text.split()) for text in answers], PAD)  # (2, 7), what is to be predicted
tgt_ids = torch.cat([torch.full((2, 1), BOS), labels[:, :-1]], dim=1)  # (2, 7), what the decoder is given

torch.manual_seed(1)
model = reference.Transformer(len(english), len(french), d_model=16, num_heads=2, d_ff=32, num_layers=2).eval()

# %% figure The two masks of a padded sentence
src_names, tgt_names = [english.words[i] for i in src_ids[1]], [french.words[i] for i in tgt_ids[1]]
figure, axes = plt.subplots(1, 2, figsize=(9.2, 3.8))
show_matrix(
    model.source_mask(src_ids)[1].expand(7, 7).float(),
    "source mask, the same for every query",
    rows="any query",
    columns="key: a source word",
    column_names=src_names,
    ax=axes[0],
)
axes[0].set_yticks([])
show_matrix(
    model.target_mask(tgt_ids)[1].float(),
    "target mask: real and not in the future",
    rows="query: a target word",
    columns="key: a target word",
    row_names=tgt_names,
    column_names=tgt_names,
    ax=axes[1],
)
plt.show()

# %% claims
claim("there are padded targets", bool((tgt_ids[1, -3:] == PAD).all()))
claim("their rows of the target mask are not empty", bool(model.target_mask(tgt_ids)[1, -3:].any(dim=-1).all()))

# %% [markdown]
# The padded rows of the target mask are not empty: a padded position may look at the real ones. Nobody reads its
# output, and a row without any allowed key would only cause trouble (notebook 2).
#
# {{exercise Transformer}}
#
# Now wire it up. `__init__` is given and makes all the parts, under the names that the check knows. You write the two
# masks, the two halves and `forward`:
#
# $$\begin{aligned}
# \text{memory} &= \text{Encoder}(\text{dropout}(E_s + P),\ M_s)\\
# \text{logits} &= W_{\text{out}}\, \text{Decoder}(\text{dropout}(E_t + P),\ \text{memory},\ M_t,\ M_s)
# \end{aligned}$$
#
# $E_s$ and $E_t$ are the embedded source and target ids, $P$ the position vectors, $M_s$ and $M_t$ the two masks. Keep
# three things in mind. Padding may stand anywhere in a sentence, not only at its end. Masks have to be on the device of
# the ids (`tgt_ids.device`), or the model fails on a GPU (the check says so; that costs no points). And the model
# returns *logits*, not probabilities.


# %% exercise Transformer
class Transformer(nn.Module):
    """An encoder-decoder that turns source ids and the targets so far into logits for the next targets."""

    def __init__(
        self, src_vocab: int, tgt_vocab: int, d_model: int, num_heads: int, d_ff: int, num_layers: int,
        dropout: float = 0.0, norm_first: bool = True, tie_weights: bool = False, pad_id: int = 0, max_len: int = 1024,
    ):  # fmt: skip
        super().__init__()
        self.pad_id = pad_id
        self.src_embedding = TokenEmbedding(src_vocab, d_model, pad_id)  # includes the factor √d_model
        self.tgt_embedding = TokenEmbedding(tgt_vocab, d_model, pad_id)
        self.positions = PositionalEncoding(d_model, max_len)  # returns x + position vectors
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
        past = causal_mask(tgt_ids.shape[1]).to(tgt_ids.device)  # (target, target)
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
# **Can it learn at all?** Training is the subject of notebook 8. But a model that cannot learn two sentences by heart
# is broken; often some part is not connected. Each position should predict the next word. (From here to the last
# section we use the course's own model, `reference.Transformer`.)

# %%
torch.manual_seed(0)
learner = reference.Transformer(len(english), len(french), d_model=32, num_heads=2, d_ff=64, num_layers=2).to(device)
optimizer = torch.optim.Adam(learner.parameters(), lr=0.01)
for _ in range(60):
    logits = learner(src_ids.to(device), tgt_ids.to(device))  # (2, 7, number of French words)
    loss = F.cross_entropy(logits.flatten(0, 1), labels.to(device).flatten(), ignore_index=PAD)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
chances = logits.softmax(dim=-1).detach().cpu()  # (sentence, target, vocabulary)

# %% figure What the model predicts after 60 steps
columns = sorted(set(labels.flatten().tolist()) - {PAD})
figure, axes = plt.subplots(1, 2, figsize=(10, 4))
for number, ax in enumerate(axes):
    real = labels[number] != PAD
    show_matrix(
        chances[number, real][:, columns],
        sources[number],
        rows="word that is read",
        columns="word that is predicted",
        row_names=[french.words[i] for i in tgt_ids[number, real]],
        column_names=[french.words[i] for i in columns],
        numbers=True,
        limits=(0, 1),
        ax=ax,
    )
plt.suptitle("Probabilities of the next word, after 60 steps on two sentences")
plt.show()

# %% claims
right = chances.gather(-1, labels[..., None])[..., 0][labels != PAD]
claim("both sentences are learned by heart", right.min() > 0.8)

# %% [markdown]
# *tapis* it is. Compare two pairs of rows. On the left, *le* is read twice and followed by two different words: the
# decoder uses more than the last word. And after `<bos> le chat` one sentence goes on with *est*, and the other ends,
# though the decoder has read the same three tokens. The difference can only have come from the source.

# %% [markdown]
# ## One table or three? And how to start
#
# **{{term weight tying|Weight tying}}.** The target {{term embedding}} has a row for each target word. So has the
# output layer: a word's logit is the {{term dot product}} of the decoder's vector with that row. The paper uses *one*
# table for both, and, since its two languages share a vocabulary, for the source embedding as well.
#
# **Initialisation.** A model that knows nothing should give every word the same probability. Then its {{term loss}} is
# $\ln V$, for 1000 words $\ln 1000 = 6.91$. So the loss of the first batch tells you whether the initial weights
# have a sensible size. Here the matrices start with Xavier's rule (uniform, variance
# $2 / (\text{inputs} + \text{outputs})$), biases at 0, gains at 1, and the tables as $N(0, 1/d_{\text{model}})$.

# %%
torch.manual_seed(0)
src, tgt, random_labels = (torch.randint(1, 1000, (8, 20)) for _ in range(3))
fresh = reference.Transformer(1000, 1000, 64, 4, 256, 2)
tied = reference.Transformer(1000, 1000, 64, 4, 256, 2, tie_weights=True)
careless = reference.Transformer(1000, 1000, 64, 4, 256, 2, tie_weights=True)
for parameter in careless.parameters():
    nn.init.normal_(parameter)

first_loss = {}
for name, built in {"three tables": fresh, "one table": tied, "one table, all from N(0, 1)": careless}.items():
    first_loss[name] = F.cross_entropy(built(src, tgt).flatten(0, 1), random_labels.flatten()).item()
    size = sum(p.numel() for p in built.parameters())
    print(f"{name:28} {size:8,} parameters, first loss {first_loss[name]:6.2f}  (ln 1000 = {math.log(1000):.2f})")

# %% claims
excess = [loss - math.log(1000) for loss in first_loss.values()]
claim("as built, the loss is close to ln 1000", abs(excess[0]) < 0.4)
claim("tied it is a little higher", excess[0] < excess[1] < 1.5)
claim("with N(0, 1) it is far too high", excess[2] > 10)
sizes = [sum(p.numel() for p in built.parameters()) for built in (fresh, tied)]
claim("two tables fewer", sizes[0] - sizes[1] == 2 * 1000 * 64)

# %% [markdown]
# As built, the loss is close to $\ln 1000$. Tied, it is a little higher: rows of length 1 give logits of size 1
# (notebook 5). With $N(0, 1)$ everywhere, the model is sure of itself before it has learned anything.

# %% [markdown]
# ## How many parameters?
#
# Everybody quotes these numbers, and you can work them out. Write $d$ for $d_{\text{model}}$:
#
# | part | parameters |
# |---|---|
# | a table with $R$ rows | $R \cdot d$ |
# | attention: $W_Q, W_K, W_V, W_O$ with biases | ? |
# | feed-forward network $d \to d_{\text{ff}} \to d$ with biases | ? |
# | LayerNorm: gain and bias | ? |
#
# The number of {{term head|heads}} does not appear: each head owns a slice of one $d \times d$ matrix. Nor do
# sinusoidal positions: nothing in them is learned.
#
# {{exercise transformer_parameters}}
#
# $$R\,d + N_{\text{enc}}\,(\text{att} + \text{ff} + 2\,\text{norm})
#   + N_{\text{dec}}\,(2\,\text{att} + \text{ff} + 3\,\text{norm}) + \text{extra norms}$$


# %% exercise transformer_parameters
def transformer_parameters(
    table_rows: int, d_model: int, d_ff: int, encoder_layers: int, decoder_layers: int, extra_norms: int = 0
) -> int:
    """How many parameters a Transformer has. Every linear layer has a bias; the tables have none.

    table_rows: the rows of d_model numbers in all tables together (tokens, learned positions, segments, and the
    output layer's if it has its own table).
    encoder_layers: layers without cross-attention. decoder_layers: layers with it.
    extra_norms: norms outside the layers.
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
# Try it on three well-known models. BERT is the encoder alone. GPT-2 is the decoder alone, and without cross-attention
# its layers are like an encoder's, with a {{term causal}} mask.
#
# - **The paper's base model**: 6 + 6 layers, $d = 512$, $d_{\text{ff}} = 2048$, one shared table of about 37 000
#   tokens.
# - **BERT-large**: 24 layers, $d = 1024$, $d_{\text{ff}} = 4096$; tables for 30 522 tokens, 512 learned positions and
#   2 segments; one norm after the tables; and a small *pooler*, one more $d \times d$ layer with bias.
# - **GPT-2 XL**: 48 layers, $d = 1600$, $d_{\text{ff}} = 6400$; 50 257 tokens, 1024 learned positions; one norm at the
#   end; output tied.

# %%
well_known = {
    "base model (2017)": (37_000, 512, 2048, 6, 6, 0),
    "BERT-large": (30_522 + 512 + 2, 1024, 4096, 24, 0, 1),
    "GPT-2 XL": (50_257 + 1024, 1600, 6400, 48, 0, 1),
}
quoted = {"base model (2017)": "65 million", "BERT-large": "340 million", "GPT-2 XL": "1.5 billion"}
counted = {name: reference.transformer_parameters(*sizes) for name, sizes in well_known.items()}
counted["BERT-large"] += 1024 * 1024 + 1024  # the pooler
for name, count in counted.items():
    print(f"{name:18} {count:13,} parameters, quoted as {quoted[name]:11}   {16 * count / 1e9:4.1f} GB to train")

# %% claims
claim("the base model lacks two million", 1e6 < 65e6 - counted["base model (2017)"] < 3e6)
claim("BERT-large is 335 million", counted["BERT-large"] == 335_141_888)
claim("GPT-2 XL is 1.56 billion", counted["GPT-2 XL"] == 1_557_611_200)
claim("which takes 25 GB to train", abs(16 * counted["GPT-2 XL"] / 1e9 - 25) < 0.5)

# %% [markdown]
# For BERT and GPT-2 the quoted numbers are ours, roughly rounded. For the base model two million are missing; the paper
# gives no breakdown.
#
# The last column shows what limits larger models: hardware. In single precision, the weights, their
# {{term gradient|gradients}} and Adam's two averages take 16 bytes per parameter, 25 GB for GPT-2 XL, before a single
# activation is stored. The other limit is throughput: how fast data gets to the chip. (Notebook 8 saves memory.)

# %% figure Where the parameters are
colours = {"tables": "embedding", "attention": "attention", "feed-forward": "feed_forward", "norms": "norm"}
shares = {part: [] for part in colours}
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
for part, counts in shares.items():
    percent = [100 * count / total for count, total in zip(counts, totals, strict=True)]
    ax.barh(list(well_known), percent, left=start, color=PARTS[colours[part]], label=part, height=0.55)
    for row, (value, offset) in enumerate(zip(percent, start, strict=True)):
        if value > 4:
            ax.text(offset + value / 2, row, f"{value:.0f} %", ha="center", va="center", fontsize=9)
    start = [a + b for a, b in zip(start, percent, strict=True)]
ax.set(title="Where the parameters are (the norms are too few to be seen)", xlabel="share in %", xlim=(0, 100))
ax.invert_yaxis()
ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.28), ncols=4, frameon=False)
plt.show()

# %% claims
claim("the norms are too few to be seen", all(n / t < 0.001 for n, t in zip(shares["norms"], totals)))

# %% [markdown]
# ## The same model, written by somebody else
#
# How can you be sure that your model is *the* Transformer? Somebody else has written one: `torch.nn.Transformer`. Two
# randomly initialised models cannot be compared. But if you copy the weights of one into the other, both must give the
# same numbers, except for rounding. Nearly every wiring mistake would show.
#
# {{exercise torch_state}}
#
# The weights have other names there, given in `TORCH_NAMES`, and $W_Q, W_K, W_V$ are packed into one tall matrix. Write
# the translation: a dict of tensors in, a dict of tensors out. Embeddings and the output layer are left out, since
# `nn.Transformer` has none.
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
# Now compare. Three differences have to be dealt with: `nn.Transformer` takes vectors instead of ids, and leaves all
# masks to the caller; its masks are True where attention is **hidden**; and it ends each stack with one more norm even
# in {{term post-norm}} mode, which is removed here, since the paper has none.

# %%
SOURCE = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 2, 0, 0]])
TARGET = torch.tensor([[1, 3, 5, 7], [1, 4, 0, 0]])
differences = []
for norm_first in (False, True):
    torch.manual_seed(0)
    ours = reference.Transformer(10, 10, 16, 2, 24, 3, norm_first=norm_first).double()
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.3)  # so that gains are not 1 and biases not 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = nn.Transformer(16, 2, 3, 3, 24, 0.0, batch_first=True, norm_first=norm_first).double()
    reference.copy_into_torch(ours, theirs)  # with torch_state
    hidden = theirs(
        ours.positions(ours.src_embedding(SOURCE)),
        ours.positions(ours.tgt_embedding(TARGET)),
        tgt_mask=~causal_mask(4),
        src_key_padding_mask=SOURCE == 0,
        tgt_key_padding_mask=TARGET == 0,
        memory_key_padding_mask=SOURCE == 0,
    )
    differences.append((ours.output(hidden) - ours(SOURCE, TARGET))[TARGET != 0].abs().max().item())
    print(f"norm_first={norm_first!s:5}  largest difference at real positions: {differences[-1]:.1e}")

# %% claims
claim("the two are the same function", max(differences) < 1e-12)

# %% [markdown]
# What is left is rounding in the last digit of double precision. The two are the same function.
#
# {{question what_a_twin_proves}}
#
# This comparison says nothing about some parts of our model and some uses of it. Name two mistakes that a Transformer
# could have although its numbers agree with torch's in the cell above, and for each a test that would find it.

# %% answer what_a_twin_proves 2 [markdown]
# ### BEGIN SOLUTION
# Both sides of the comparison use our embeddings, positions and output layer, so a mistake there (no factor √d_model, a
# table of positions that is off by one) appears on both sides. The weights are overwritten, so a bad initialisation
# does not show; a first loss far from ln V would. Dropout is 0, so dropout in the wrong place does not show.
# Rows of padding are left out of the comparison, and what the decoder is given (the shift by one place) is up to the
# caller. Tests: the first loss; learning two sentences by heart; a sentence alone and in a padded batch; training with
# dropout and looking at what is zeroed.
#
# **Rubric**
#
# - 1 point: a first mistake that the comparison cannot see, and a test that finds it; half a point without the test
# - 1 point: a second one, of another kind, and its test; half a point without the test
# ### END SOLUTION

# %% [markdown]
# ## "It runs, so it must be right"
#
# Most code has no twin to compare with. What people do then is a *smoke test*: feed random numbers of the right shape
# and see whether smoke comes out. Here is a published one, for speech. **Predict the shape** of the result: 16
# recordings, 100 frames of 80 numbers each, labels of length 50, a vocabulary of 26.

# %%
torch.manual_seed(0)
random_labels = torch.randint(0, 26, (16, 50))
frontend, label_table, output = nn.Linear(80, 64), nn.Embedding(26, 64), nn.Linear(64, 26)
encoder, decoder = Encoder(64, 4, 128, 2), Decoder(64, 4, 128, 2)
logits = output(decoder(label_table(random_labels), encoder(frontend(torch.randn(16, 100, 80)))))
print(tuple(logits.shape))

# %% claims
claim("as many rows as labels", tuple(logits.shape) == (16, 50, 26))
frames = torch.randn(2, 100, 80)
forwards, backwards = (decoder(label_table(random_labels[:2]), encoder(frontend(f))) for f in (frames, frames.flip(1)))
claim("played backwards, the sound gives the same logits", torch.allclose(forwards, backwards, atol=1e-4))

# %% [markdown]
# It is (16, 50, 26): one row per *label*, not per frame. No smoke. (The published version had some: it defined
# `max_lable_len` and used `max_label_len`, and Python named the mistake.) And yet:
#
# - there are no lengths and no masks: padding is attended to, and each label sees the labels after it;
# - there are no positions: played backwards, the sound would give the same logits;
# - the labels go in unshifted: position $i$ sees label $i$, which it is to predict (notebook 8);
# - 26 ids for 26 letters leave none for start, end and padding.
#
# All these mistakes keep the shapes. Properties find them. Here are five that you can ask of any model of this kind:
#
# | property | finds |
# |---|---|
# | what a position may not see can be changed without effect | forgotten masks, in every attention |
# | a sentence gives the same result alone and in a padded batch | leaking padding, a missing `batch_first` |
# | random labels cannot be learned: the loss stays at $\ln V$ (notebook 8) | unshifted labels, leaks of the future |
# | the loss of the first batch is about $\ln V$ | weights of the wrong size at the start |
# | two sentences can be learned by heart | parts that are not connected, weights that no optimiser sees |
#
# The check of your `Transformer` has tested the first two, and you have seen the last two above.
#
# ## A tool that finds leaks
#
# Now for the first property, with all pairs at once: **which outputs depend on which inputs?** The
# {{term leak map|leak maps}} of notebook 2 used gradients, which ids do not have. A simpler way: replace one token, run
# the model again, and see which outputs have changed. A hidden token has weight exactly 0, so replacing it changes
# nothing, not even the last digit.
#
# {{exercise find_the_leak}}
#
# $$\text{leak}_{ij} = \big[\, f(\text{ids with token } j \text{ replaced})_i \ne f(\text{ids})_i \,\big]$$


# %% exercise find_the_leak
def find_the_leak(function, ids: Tensor, vocab_size: int) -> Tensor:
    """Which output positions change when one input token is replaced by another?

    function: maps ids (batch, time) to (batch, time', features), such as `lambda ids: model(src, ids)`.
    ids: (time,), one sentence. Each token in turn is replaced by some other token from 0 to vocab_size - 1.
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
# Point it at four decoders. All of them run and return logits of the right shape. One is right.

# %% figure Four decoders under the tool


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


class Transposed(reference.Transformer):
    """triu instead of tril."""

    def target_mask(self, tgt_ids):
        n = tgt_ids.shape[1]
        return torch.ones(n, n, dtype=torch.bool).triu()


ids = torch.tensor([1, 5, 3, 7, 2, 4])
decoders = {
    "right": reference.Transformer,
    "argument mask=True,\nnever used": AcceptsAndForgets,
    "diagonal\noff by one": OneTooMany,
    "triu instead\nof tril": Transposed,
}
leaks = []
figure, axes = plt.subplots(1, 4, figsize=(9, 2.8))
for ax, (title, kind) in zip(axes, decoders.items(), strict=True):
    torch.manual_seed(0)
    tested = kind(9, 9, 16, 2, 32, 1).double().eval()
    leaks.append(reference.find_the_leak(lambda ids, tested=tested: tested(SOURCE[:1], ids), ids, 9))
    show_matrix(leaks[-1].float(), title, rows="output", columns="input replaced", numbers=False, limits=(0, 1), ax=ax)
plt.suptitle("Yellow: the output depends on this input token. Above the diagonal nothing may be yellow")
plt.show()

# %% claims
claim("the right decoder is causal", torch.equal(leaks[0], causal_mask(6)))
claim("the others leak", all(bool((leak & ~causal_mask(6)).any()) for leak in leaks[1:]))

# %% [markdown]
# ## When the input is not text
#
# For sound, the embedding table gives way to a small network, the *front end*: a linear layer or a convolution
# over the frames (notebook 0: 80 filter-bank energies, MFCCs, or the waveform). The decoder still writes words.
#
# A convolution with stride 2 halves the number of frames, and attention over half as many frames costs a quarter. But
# now the **lengths change too**, and the mask has to be built from the lengths *after* the front end. A window of
# `kernel` frames moves on by `stride` frames. How many windows lie entirely within the recording?

# %% figure Windows over a recording of 7 frames
figure, ax = plt.subplots(figsize=(7, 2.2))
for frame in range(9):
    real = frame < 7
    ax.add_patch(plt.Rectangle((frame, 0), 0.92, 0.6, facecolor=PARTS["feed_forward"] if real else "#dddddd"))
    ax.text(frame + 0.46, 0.3, str(frame) if real else "pad", ha="center", va="center", fontsize=9)
for window, start in enumerate((0, 2, 4, 6)):
    fits = start + 3 <= 7
    height = -0.35 - 0.3 * window
    ax.barh(height, 2.92, left=start, height=0.12, color="black" if fits else "#bbbbbb")
    note = f"window {window}" + ("" if fits else ": reaches into the padding")
    ax.text(start + 3.1, height, note, va="center", fontsize=9)
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
    """The number of frames of each recording after a convolution over time, without padding at the ends.

    Only windows that lie entirely within the recording count. A recording shorter than the kernel has none: 0.
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
# What happens without it? Two recordings have 60 and 100 frames, and the front end turns 100 frames into 50. A mask
# from the *old* lengths hides the frames from 60 or 100 on, and there are none. No error is raised, but the padding now
# influences the real frames:

# %%
torch.manual_seed(0)
frontend = nn.Conv1d(80, 32, kernel_size=2, stride=2)
positions, encoder = PositionalEncoding(32, 128), Encoder(32, 4, 64, 1)
lengths = torch.tensor([60, 100])
recordings = torch.randn(2, 100, 80)
noisy = recordings.clone()
noisy[0, 60:] = torch.randn(40, 80)  # other numbers in the padding
both = frontend(torch.cat([recordings, noisy]).transpose(1, 2)).transpose(1, 2)  # (4, 50, 32)

changes = []
for name, used in (("before", lengths), ("after", reference.subsampled_lengths(lengths, kernel=2, stride=2))):
    mask = (torch.arange(50) < used[:, None])[:, None, :].repeat(2, 1, 1)  # (4, 1, 50)
    first, second = encoder(positions(both), mask)[[0, 2], :30]
    changes.append((first - second).abs().max().item())
    print(f"lengths {name:6} the front end {used.tolist()!s:9}: the real frames change by {changes[-1]:.0e}")

# %% claims
claim("the wrong lengths let padding through", changes[0] > 1e-3)
claim("the right ones do not", changes[1] == 0)

# %% [markdown]
# ## Why not a recurrent network or a convolution?
#
# How many steps does information take between two words $n$ positions apart? A **{{term recurrent network}}** passes it
# on step by step, and each step waits for the one before. A **convolution** does all positions at once, but a layer of
# kernel width $w$ reaches only $(w-1)/2$ positions to each side. **Attention** connects every pair in one layer, all
# at once, and pays with $n^2$ scores.
#
# | layer | operations | steps one after another | longest path between two positions |
# |---|---|---|---|
# | self-attention | $n^2 d$ | 1 | 1 |
# | recurrent | $n d^2$ | $n$ | $n$ |
# | convolution, kernel width $w$ | $w n d^2$ | 1 | $2n / (w - 1)$ layers, or about $\log_w n$ with growing gaps |
#
# (The projections of self-attention add $4nd^2$.) You can see the last column with the same tool, on vectors:

# %% figure Who can see whom in four networks
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
        changed[0, j] = torch.randn(d)  # not "+= 1": a norm removes what is added to all features alike
        columns.append((network(changed)[0] != before).any(dim=-1))
    return torch.stack(columns, dim=1)


networks = {
    "1 convolution,\nkernel width 3": convolutions(1),
    "3 convolutions,\nkernel width 3": convolutions(3),
    "1 LSTM layer\n(12 steps)": lambda x: lstm(x)[0],
    "1 attention layer": attention,
}
reached = [reach(network) for network in networks.values()]
figure, axes = plt.subplots(1, 4, figsize=(9, 2.7))
for ax, title, seen in zip(axes, networks, reached, strict=True):
    show_matrix(seen.float(), title, rows="output", columns="input", numbers=False, limits=(0, 1), ax=ax)
    ax.set(xticks=[0, 5, 11], yticks=[0, 5, 11])
plt.suptitle("Who can see whom (yellow: the output depends on the input)")
plt.show()

# %% claims
far = (torch.arange(12)[:, None] - torch.arange(12)).abs()
claim("one convolution reaches 1, three reach 3", all(torch.equal(reached[i], far <= r) for i, r in ((0, 1), (1, 3))))
claim("the LSTM sees the past", torch.equal(reached[2], causal_mask(12)))
claim("attention sees everything", bool(reached[3].all()))

# %% [markdown]
# One convolution reaches one position to each side, three reach three. The LSTM sees the past, in twelve steps. One
# layer of attention sees everything.
#
# ## Your Transformer translates
#
# Training is the next notebook. But the course comes with trained {{term parameter|parameters}}, and your class gives
# its parameters the same names. So they fit.

# %%
model_class = yours("Transformer", Transformer)
translator = model_class(
    len(english), len(french), d_model=128, num_heads=4, d_ff=256, num_layers=2, pad_id=PAD, max_len=64
)
print(translator.load_state_dict(torch.load(WEIGHTS, map_location="cpu", weights_only=True)))
translator = translator.to(device).eval()

# %% [markdown]
# Now the walk from the beginning of this notebook, with your own `encode` and `decode`. The decoder starts from
# {{term BOS|`<bos>`}}; the most probable next word is appended, until it is {{term EOS|`<eos>`}}. Change the sentence:
# the model knows some three hundred words (`english.words`).

# %%
sentence = "The cat is on the mat"

ids = english.encode(sentence.lower().split())[None].to(device)  # (1, source)
written = [BOS]
with torch.no_grad():
    memory = translator.encode(ids)  # (1, source, d_model), once
    while written[-1] != EOS and len(written) < 40:
        logits = translator.decode(torch.tensor([written], device=device), memory, ids)  # (1, target, French words)
        chances = logits[0, -1].softmax(dim=-1)  # about the word after the last
        written.append(int(chances.argmax()))
        print(f"{french.words[written[-1]]:12} with probability {chances.max():.3f}")
print(f"{sentence}  →  {translate(translator, [sentence])[0]}")

# %% claims
claim("the student's own model is used", model_class is Transformer)
claim("it translates the cat", translate(translator, ["The cat is on the mat"]) == ["le chat est sur le tapis"])
claim("the loop and the course's decoder agree", " ".join(french.decode(written)) == "le chat est sur le tapis")

# %% [markdown]
# And this is what your model looks at, for all three kinds of attention, layer by layer and head by head. "le
# → chat" is the step at which the decoder has read *le* and writes *chat*. Find a head that looks at the word being
# translated, and one that looks elsewhere.

# %% figure What your Transformer looks at
attention_explorer(translation_attention(translator, sentence))

# %% [markdown]
# ## What you can do now
#
# - wire a whole Transformer that builds its own masks, and say what each of its three attentions hides;
# - count a model's parameters from its sizes;
# - copy weights between two implementations, and say what agreement proves;
# - test a model by properties, with a tool that shows who sees whom;
# - load trained parameters into your own class, and translate.
#
# **To read.**
#
# - Vaswani et al. 2017, *Attention Is All You Need*, sections 3 and 4; Alammar 2018, *The Illustrated Transformer*.
# - Press and Wolf 2017 on tying input and output embeddings; Glorot and Bengio 2010 on initialisation.
# - Devlin et al. 2019 (BERT) and Radford et al. 2019 (GPT-2) for the sizes counted above.
# - Bloem 2019, *Transformers from scratch*: depth, path lengths, and hardware as the bottleneck.
