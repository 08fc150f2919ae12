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
# # 10 · Classification: an encoder that reads
#
# Does the writer like the film? Which language is this? The answer is one class for a whole text, so nothing has to be
# written, and the encoder alone will do. You will build such a reader, test it on sentences that no bag of words can
# understand and on real names, look at what it attends to, and teach it with eight labels after it has read text that
# has none.

# %% setup
import os
import random
from collections import Counter

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib import check, hint, languages, reader, reviews, solution, yours
from course_lib import classification as reference
from course_lib.encoder_decoder import Encoder
from course_lib.languages import CODES, LANGUAGES
from course_lib.plotting import COLOURS, SEQUENTIAL, show_map, show_matrix, use_course_style
from course_lib.positions import LearnedPositions
from course_lib.progress_bar import bar
from course_lib.pronunciation import read_cmudict
from course_lib.reader import accuracy, batches_of, everything, train_classifier
from course_lib.settings import course_device
from course_lib.sublayers import TokenEmbedding

use_course_style()
device = course_device()
FAST = os.environ.get("COURSE_FAST") == "1"  # for testing the notebook: the same cells, fewer steps

# %% figure Where we are
show_map("10_classification")

# %% [markdown]
# ## One vector for a whole text
#
# **Spot the mistake:** "BERT and GPT-2 have dropped both encoder and decoder." Each of them keeps one of the two
# stacks. BERT is {{term encoder|encoder}}-only: every token sees every other, which is what reading needs. GPT-2 is
# {{term decoder|decoder}}-only, without cross-attention: no token sees the future, which is what writing needs.
#
# An encoder gives one vector for each {{term token}}. A {{term classifier}} needs one for the whole sequence. Making
# one vector of many is called {{term pooling}}, and there are three usual ways:
#
# - the **mean** over all positions: everything has an equal say;
# - the **maximum** of each {{term feature}}: one token is enough to be noticed;
# - a special token, **{{term CLS|[CLS]}}**, in front of the text: attention carries to it whatever is needed, and its
#   vector stands for the text. BERT does that.

# %% figure Three ways to make one vector of four
vectors = torch.tensor([[0.9, -0.4, 0.1, 0.3], [0.0, 0.8, -0.6, 0.1], [-0.7, 0.2, 0.9, 0.0], [0.2, 0.2, 0.0, -0.8]])
pooled = {"mean": vectors[1:].mean(dim=0), "maximum": vectors[1:].amax(dim=0), "[CLS]": vectors[0]}
figure, axes = plt.subplots(1, 2, figsize=(9, 2.7))
names = ["[CLS]", "not", "really", "lovely"]
look = {"columns": "feature", "diverging": True, "limits": (-1, 1)}
show_matrix(vectors, "after the encoder", rows="", row_names=names, ax=axes[0], **look)
rows = torch.stack(list(pooled.values()))
show_matrix(rows, "one vector for the sentence", rows="", row_names=list(pooled), ax=axes[1], **look)
plt.show()

# %% [markdown]
# In a {{term batch}} the shorter texts end in {{term padding}}. The wrong way is in many tutorials: `x.mean(dim=1)`,
# over everything. Then the same sentence gets a different vector as soon as it is next to a longer one:

# %%
torch.manual_seed(0)
sentence = torch.randn(3, 4)  # the encoder's vectors of "not really lovely"
padding = torch.randn(6, 4)  # and what it gives at padded places: anything
for n in (0, 2, 6):
    x = torch.cat([sentence, padding[:n]])  # (time, d)
    careless, right = x.mean(dim=0), x[:3].mean(dim=0)  # (d,)
    print(
        f"padding {n}:   mean over everything {careless.numpy().round(2)}   over real places {right.numpy().round(2)}"
    )

# %% claims
claim("padding changes the mean over everything", (careless - right).abs().max() > 0.1)

# %% [markdown]
# With $r_t = 1$ at real positions and 0 at padding,
#
# $$\text{pooled} = \frac{\sum_t r_t\, x_t}{\max\left(1, \sum_t r_t\right)}$$
#
# {{exercise masked_mean}}


# %% exercise masked_mean
def masked_mean(x: Tensor, real: Tensor) -> Tensor:
    """One vector per sequence: the mean over its real positions. What the padding holds plays no part.

    x: (..., time, d); real: (..., time) boolean, True at real positions.
    Returns: (..., d). A sequence without any real position gives zeros.
    """
    ### BEGIN SOLUTION
    kept = x.masked_fill(~real.unsqueeze(-1), 0.0)  # (..., time, d)
    count = real.sum(dim=-1, keepdim=True)  # (..., 1)
    return kept.sum(dim=-2) / count.clamp(min=1)
    ### END SOLUTION


# %% check masked_mean
check(masked_mean)


# %% [markdown]
# ## The classifier
#
# $$\text{logits} = W \cdot \text{mean}\big(\text{Encoder}(E[\text{ids}] + P)\big) + b \qquad W\colon
# (\text{classes} \times d_\text{model})$$
#
# $E$ is the {{term embedding}}, $P$ the learned positions, and the last layer is the *head* of the classifier (the word
# has nothing to do with the heads of attention). The parts are given: `TokenEmbedding(vocab_size, d_model, pad_id)`,
# `LearnedPositions(max_len, d_model)`, which adds its vectors to what it is given, and
# `Encoder(d_model, num_heads, d_ff, num_layers)`, called with a {{term mask}} that hides padded keys.
#
# It returns {{term logits}}; `F.cross_entropy` takes the {{term softmax}} itself. (Some code ends in `log_softmax`.
# With `F.cross_entropy` that changes nothing: the softmax of log-probabilities is the probabilities again.)
#
# {{exercise SequenceClassifier}}


# %% exercise SequenceClassifier
class SequenceClassifier(nn.Module):
    """Embedding, learned positions, a pre-norm encoder, the mean over the real positions, and a linear head.

    Call the parts `embedding`, `positions`, `encoder` and `head`: `fine_tune`, further down, looks for them.
    Use `reference.masked_mean`, so that nothing depends on your cell above.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        d_model: int,
        num_heads: int,
        d_ff: int,
        num_layers: int,
        max_len: int,
        pad_id: int = 0,
    ):
        super().__init__()
        ### BEGIN SOLUTION
        self.pad_id = pad_id
        self.embedding = TokenEmbedding(vocab_size, d_model, pad_id)
        self.positions = LearnedPositions(max_len, d_model)
        self.encoder = Encoder(d_model, num_heads, d_ff, num_layers)
        self.head = nn.Linear(d_model, num_classes)
        ### END SOLUTION

    def forward(self, ids: Tensor) -> Tensor:
        """ids: (batch, time), at least one real token in every row; pad_id is neither attended to nor counted.

        Returns: logits (batch, num_classes).
        """
        ### BEGIN SOLUTION
        real = ids != self.pad_id  # (batch, time)
        x = self.positions(self.embedding(ids))  # (batch, time, d_model)
        vectors = self.encoder(x, real[:, None, :])  # (batch, time, d_model)
        return self.head(reference.masked_mean(vectors, real))  # (batch, num_classes)
        ### END SOLUTION


# %% check SequenceClassifier
check(SequenceClassifier)

# %% figure What changes the answer of an untrained classifier?
OwnClassifier = yours("SequenceClassifier", SequenceClassifier)
torch.manual_seed(0)
model = OwnClassifier(20, 3, d_model=16, num_heads=2, d_ff=32, num_layers=2, max_len=16).eval()
ids = torch.tensor([[5, 9, 12, 7, 3]])
blind = reader.without_positions(reference.SequenceClassifier(20, 3, 16, 2, 32, 2, 16)).eval()
changes = {}
with torch.no_grad():
    for name, other in (("6 padding tokens added", F.pad(ids, (0, 6))), ("the words reversed", ids.flip(1))):
        changes[name] = [(m(ids) - m(other)).abs().max().item() for m in (model, blind)]
        print(f"{name:26} logits move by {changes[name][0]:.4f}, without positions by {changes[name][1]:.4f}")

# %% claims
claim("padding changes nothing", max(changes["6 padding tokens added"]) < 1e-5)
claim("the order counts with positions", changes["the words reversed"][0] > 1e-3)
claim("and not without them", changes["the words reversed"][1] < 1e-5)

# %% [markdown]
# Without positions the encoder is {{term equivariance|equivariant}} and the mean does not care about order: the whole
# model is blind to it. Does that matter?
#
# ## Does it read, or does it count words?
#
# Film reviews are the classic task. Bloem (2019) reports 85 % on IMDb reviews for a model like yours with 6 layers and
# up to 512 words, about what recurrent networks reach, and much faster to train. But how much of that is reading? Our
# reviews come from a small grammar, so we know. What follows *but* counts, a clause with *although* does not, and *not*
# reverses an opinion. Some reviews are **twins**: the same words, the opposite meaning.

# %%
for number, review in enumerate(reviews.twins(8, seed=7)):
    print(f"{'likes it' if review.likes_it else 'does not':9} {review}", end="\n\n" if number % 2 else "\n")

# %% [markdown]
# Three models learn from 10,000 ordinary reviews and 10,000 twins: yours, the same without positions, and a
# {{term bag of words}}, which gives each word a score for each class and adds the scores up.


# %%
def train_on_reviews(model: nn.Module, name: str, rate: float = 3e-3, steps: int = 30 if FAST else 600) -> nn.Module:
    batches = bar(batches_of(*training, batch_size=64, steps=steps, seed=1), name, total=steps)
    train_classifier(model, batches, steps, everything(model, rate))
    return model


number = 1000 if FAST else 10_000
training = reviews.encode_reviews(reviews.ordinary_reviews(number, seed=1) + reviews.twins(number, seed=2))
ordinary = reviews.encode_reviews(reviews.ordinary_reviews(2000, seed=3))
twins = reviews.encode_reviews(reviews.twins(2000, seed=4))
torch.manual_seed(1)
judges = {"yours": reader.new_judge(OwnClassifier), "without positions": reader.without_positions(reader.new_judge())}
judges["bag of words"] = reader.BagOfWords(len(reviews.vocabulary()), 2)
for name, judge in judges.items():
    train_on_reviews(judge.to(device), name, rate=3e-2 if name == "bag of words" else 3e-3)

# %% figure Ordinary reviews and twins
scores = {name: (accuracy(judge, *ordinary), accuracy(judge, *twins)) for name, judge in judges.items()}
figure, ax = plt.subplots(figsize=(7, 3))
for place, (kind, colour) in enumerate(zip(("ordinary reviews", "twins"), COLOURS)):
    shares = [100 * score[place] for score in scores.values()]
    ax.bar_label(ax.bar([x + 0.4 * place - 0.2 for x in range(3)], shares, 0.38, color=colour, label=kind), fmt="%.1f")
ax.axhline(50, color="grey", linestyle=":", label="guessing")
ax.set(title="New reviews judged right", ylabel="%", xlabel="model", ylim=(0, 118))
ax.set_xticks(range(3), list(scores))
ax.legend(loc="upper right", ncols=3, fontsize=8)
plt.show()

# %% claims
claim("a bag of words gets exactly half of the twins", abs(scores["bag of words"][1] - 0.5) < 0.02)
claim("so does attention without positions", abs(scores["without positions"][1] - 0.5) < 0.02)
if not FAST:
    blind_on_ordinary = min(scores["bag of words"][0], scores["without positions"][0])
    claim("on ordinary reviews both do better than guessing", blind_on_ordinary > 0.56)
    claim("with positions nearly all are right", min(scores["yours"]) > 0.98)

# %% [markdown]
# On ordinary reviews, words without their order do better than guessing, so a test made of these alone would hide what
# is missing. On twins both order-blind models are right exactly half of the time, as they must be: twins look the same
# to them, and get the same answer. Attention without positions is a bag of words too, only a more expensive one.
#
# And which pooling? The same model learns the task of the next section three times, for 150 steps each:


# %% figure Mean, maximum and [CLS], compared
def train_with(pool: str, steps: int = 10 if FAST else 150) -> float:
    torch.manual_seed(1)
    sizes = (len(languages.letters()), len(CODES))
    model = reader.PoolingClassifier(pool, languages.CLS, *sizes, **reader.LANGUAGE_SIZES).to(device)
    batches = bar(batches_of(*names_to_learn, batch_size=64, steps=steps, seed=1), pool, total=steps)
    train_classifier(model, batches, steps, everything(model, 3e-3))
    return 100 * accuracy(model, *(part[: 200 if FAST else None] for part in names_to_judge))


names = languages.make_names()
names_to_learn, names_to_judge = languages.encode_names(names.train), languages.encode_names(names.test)
pooling = {pool: train_with(pool) for pool in ("mean", "max", "cls")}
for pool, right in pooling.items():
    print(f"{pool:5} {right:4.1f} % right")

# %% claims
if not FAST:
    claim("they lie within a few points of each other", max(pooling.values()) - min(pooling.values()) < 8)

# %% [markdown]
# They lie within a few points of each other: attention has already moved what matters to wherever it is needed. The
# mean is a good first choice, as long as padding stays out of it.
#
# ## A real task: which language is this?
#
# The Unicode consortium collects what countries, cities, languages and currencies are called around the world. From 32
# languages in Latin letters we take all names that occur in just one of them, and read them letter by letter. All names
# of a tenth of the things, in every language, are kept for the test: *Grèce*, *Grecja*, *Gwlad Groeg* and the others
# are either all trained on or all new.

# %%
print(f"{len(names.train):,} names to learn from, {len(names.test):,} to test on, {len(languages.letters())} ids")
for name in names.test[:6]:
    print(f"{LANGUAGES[CODES[name.language]]:12} {name.text}")

# %% [markdown]
# First two baselines without a network: always answer with the most frequent language; and {{term naive Bayes}}, which
# counts how often each language uses each run of one to three letters, and adds up the logarithms of these shares for a
# new name. Then your model after 400 steps, and the one that comes with the course, which is the same after 1,500.

# %% figure How many names are recognised? A table
steps = 30 if FAST else 400
torch.manual_seed(1)
linguist = reader.new_linguist(OwnClassifier).to(device)
batches = bar(batches_of(*names_to_learn, batch_size=64, steps=steps, seed=1), "training", total=steps)
train_classifier(linguist, batches, steps, everything(linguist, 3e-3))
shipped = reader.load_linguist().to(device)
actual = names_to_judge[1]
most_frequent = Counter(name.language for name in names.train).most_common(1)[0][0]
counts = {n: languages.PieceCounts(names.train, n) for n in (1, 3)}
recognised = {"the most frequent language": (actual == most_frequent).float().mean().item()}
for n, counted in counts.items():
    guesses = counted.scores([name.text for name in names.test]).argmax(dim=-1)
    recognised["counts of letters" if n == 1 else "counts of 1 to 3 letters"] = (
        (guesses == actual).float().mean().item()
    )
recognised[f"yours, {steps} steps"] = accuracy(linguist, *names_to_judge)
recognised["the same, 1,500 steps"] = accuracy(shipped, *names_to_judge)
for name, share in recognised.items():
    print(f"{name:28} {share:6.1%}")

# %% claims
network, counted = recognised["the same, 1,500 steps"], recognised["counts of 1 to 3 letters"]
claim("counting three letters wins", counted > network + 0.02)
claim("the network is far better than counting single letters", network > recognised["counts of letters"] + 0.1)
if not FAST:
    claim("so early it has learned much", recognised[f"yours, {steps} steps"] > 0.3)

# %% [markdown]
# Counting wins. Twenty thousand names are few for a network that starts from scratch, while a table of counts knows at
# once that *-ština* is Czech or Slovak. With much more data it is usually the other way round. Always compare a model
# with a baseline that takes a second.
#
# A single number does not say *what* goes wrong. A {{term confusion matrix}} does: its entry in row $i$ and column $j$
# counts the examples of class $i$ that were called $j$,
#
# $$C_{ij} = \text{the number of examples with actual} = i \text{ and predicted} = j$$
#
# {{exercise confusion_matrix}}


# %% exercise confusion_matrix
def confusion_matrix(predicted: Tensor, actual: Tensor, num_classes: int) -> Tensor:
    """How often each class was taken for each class.

    predicted, actual: (n,) class numbers from 0 to num_classes - 1.
    Returns: (num_classes, num_classes) whole numbers. The row is the actual class, the column the predicted one.
    """
    ### BEGIN SOLUTION
    matrix = torch.zeros(num_classes, num_classes, dtype=torch.long)
    for guess, truth in zip(predicted.tolist(), actual.tolist()):
        matrix[truth, guess] += 1
    return matrix
    ### END SOLUTION


# %% check confusion_matrix
check(confusion_matrix)

# %% figure Which languages are taken for each other?
count_confusions = yours("confusion_matrix", confusion_matrix)
belief = reader.probabilities(shipped, names_to_judge[0])  # (name, language)
confidence, predicted = belief.max(dim=-1)
confusions = count_confusions(predicted, actual, len(CODES))
shares = confusions / confusions.sum(dim=1, keepdim=True)
figure, ax = plt.subplots(figsize=(8.2, 7.4))
labels = list(LANGUAGES.values())
show_matrix(
    100 * shares, "Where the names of each language go", rows="actual", columns="predicted", row_names=labels,
    column_names=CODES, numbers=False, colourbar=True, limits=(0, 100), ax=ax,
)  # fmt: skip
ax.tick_params(labelsize=8)
figure.axes[-1].set_ylabel("% of the row")
plt.show()
wrong = confusions.clone().fill_diagonal_(0)
pairs = sorted(((wrong[i, j].item(), i, j) for i in range(32) for j in range(32)), reverse=True)[:8]
print("most often:")
for n, i, j in pairs:
    print(f"{n:4} times {labels[i]} was taken for {labels[j]}")
families = ["en de nl af", "da nb sv is", "fr it es gl pt ca ro", "ga cy", "pl cs sk sl hr", "lt lv", "fi et"]
family_of = {code: number for number, family in enumerate(families) for code in family.split()}
related = torch.tensor([[family_of.get(a, a) == family_of.get(b, b) for b in CODES] for a in CODES])  # (32, 32)
within = wrong[related].sum().item() / wrong.sum().item()
by_chance = (related.sum() - 32).item() / (32 * 31)
print(f"{within:.0%} of the mistakes stay within the family; if all were equally likely, {by_chance:.0%} would")

# %% claims
claim(
    "Danish is often taken for Norwegian", any((labels[i], labels[j]) == ("Danish", "Norwegian") for _, i, j in pairs)
)
claim("a third of the mistakes stay in the family, more than three times as many as by chance", 0.28 < within < 0.4)
claim("by chance it would be 9 %", 0.08 < by_chance < 0.1)

# %% [markdown]
# Related languages stand side by side, so their confusions lie near the diagonal: Danish is taken for Norwegian, Slovak
# for Czech, Slovenian for Croatian. A third of all mistakes stay within the family. And the most confident ones?

# %% figure The most confident mistakes
mistakes = sorted((i for i in range(len(actual)) if predicted[i] != actual[i]), key=lambda i: -confidence[i])
print(f"{'name':30} {'is':12} {'taken for':12} certainty")
for i in mistakes[:12]:
    print(f"{names.test[i].text:30} {labels[actual[i]]:12} {labels[predicted[i]]:12} {confidence[i]:.3f}")

# %% claims
claim("the first ten are made with more than 90 % certainty", confidence[mistakes[9]] > 0.9)

# %% [markdown]
# Most of them are understandable: *-ština* ends language names in Czech and in Slovak, and *á* and *ú* look Hungarian
# or Irish to a reader of letters. A model can be certain and wrong. Try it on something else; but it has learned names,
# and a sentence is not a name.

# %%
for text in ("the cat is on the mat", "le chat est sur le tapis", "Vaswani"):  # yours?
    best = reader.probabilities(shipped, languages.encode_texts([text]))[0].topk(3)
    print(f"{text:26}", ", ".join(f"{labels[i]} {p:.2f}" for p, i in zip(best.values.tolist(), best.indices.tolist())))

# %% [markdown]
# ## What did the model look at?
#
# {{term attention weights|Attention weights}} are easy to draw, and it is tempting to read them as reasons: "it says
# *likes it* because of *lovely*". Here are three measures for every word of a review, for a judge that comes with the
# course (trained as yours above): how much attention it *receives*, as a mean over layers, heads and queries; the
# length of the {{term gradient}} of the answer with respect to its vector; and, as the standard to compare with, what
# happens if the word is hidden from the model: by how much does the answer's lead in logits fall?

# %% figure Attention, gradient, and the effect of hiding a word
judge = reader.load_judge()
words = "although the plot is not dull , the music is really shabby".split()
ids = reviews.encode_words(words)[None]
measures = {
    "attention received": reader.attention_received(judge, ids)[0],
    "length of the gradient": reader.gradient_size(judge, ids)[0],
    "effect of hiding it": reader.effect_of_hiding(judge, ids)[0],
}
figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), sharey=True)
for ax, (title, values), colour, unit in zip(axes, measures.items(), COLOURS, ("share", "length", "logits")):
    ax.barh(range(len(words)), values, color=colour)
    ax.axvline(0, color="black", linewidth=0.8)
    ax.set(title=title, xlabel=unit)
axes[0].set_yticks(range(len(words)), words)
axes[0].set_ylabel("word")
axes[0].invert_yaxis()
plt.show()

# %% claims
received, _, effects = measures.values()
claim("although gets much attention", words.index("although") in received.topk(2).indices.tolist())
claim("hiding it hardly matters", abs(effects[words.index("although")].item()) < 0.1 * effects.max().item())
claim("all depends on the last word", effects.argmax().item() == len(words) - 1)

# %% [markdown]
# Attention and gradient agree that *although* matters. Hide it, and nothing happens: the comma still says which half
# counts. Everything depends on *shabby*. Now take 400 reviews and hide the word that each measure ranks first: how
# often does the judge change its mind?

# %% figure Hide the word that a measure ranks first
some, _ = reviews.encode_reviews(reviews.twins(400, seed=5))
real = some != reviews.PAD
torch.manual_seed(0)
ranked_by = {
    "a random word": torch.rand(some.shape),
    "most attention": reader.attention_received(judge, some),
    "longest gradient": reader.gradient_size(judge, some),
    "largest effect": reader.effect_of_hiding(judge, some),
}
before = reader.probabilities(judge, some).argmax(dim=-1)
flipped = {}
for name, values in ranked_by.items():
    first = values.masked_fill(~real, -torch.inf).argmax(dim=-1)
    hidden = some.clone()
    hidden[range(len(some)), first] = reviews.PAD
    flipped[name] = (reader.probabilities(judge, hidden).argmax(dim=-1) != before).float().mean().item()
    print(f"{name:17} hidden: a different answer in {flipped[name]:4.0%} of {len(some)} reviews")

# %% claims
claim("attention points to better than chance", flipped["most attention"] > flipped["a random word"] + 0.2)
claim("attention is the better pointer here", flipped["most attention"] > flipped["longest gradient"] + 0.03)
claim("in about a third nothing changes", 0.2 < 1 - flipped["most attention"] < 0.5)
claim("the gradient, too, is better than chance", flipped["longest gradient"] > flipped["a random word"] + 0.2)

# %% [markdown]
# Both are good pointers: far better than chance, and attention is the better one here. But in about a third of the
# reviews the word with the most attention can be hidden without any consequence.
#
# Is attention the reason, then? Let us search for *other* weights: far from the model's own, in every layer and head,
# but with the same answer. (200 steps of gradient descent on the weights themselves; the model is not touched.)

# %% figure Another attention, the same answer
p_own, p_other, own, other = reader.other_attention(judge, ids)
moved = [reader.distance_between(a, b).item() for a, b in zip(own, other)]
print(
    f"probability of the answer: {p_own.max():.5f} with its own attention, {p_other[p_own.argmax()]:.5f} with the other"
)
print("share of the attention that lies elsewhere, by layer:", [f"{share:.0%}" for share in moved])
figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.2), sharey=True)
for ax, title, weights in zip(axes, ("its own attention", "the other attention"), (own, other)):
    show_matrix(
        weights[1].mean(dim=0), f"{title}, last layer, mean over heads", numbers=False, limits=(0, 0.6),
        row_names=words, column_names=words, colourbar=ax is axes[1], ax=ax,
    )  # fmt: skip
axes[1].set_ylabel("")
plt.show()

# %% claims
claim("the answer is the same", (p_own - p_other).abs().max() < 0.01)
claim("more than half of the attention lies elsewhere", min(moved) > 0.5)

# %% [markdown]
# More than half of the attention has moved, and the answer is the same. So the weights cannot be *the* reason for it.
# They say where information flows, not whether it speaks for the answer or against it, and after the first layer a
# position holds what it has gathered from all others. Attention is a good place to look for ideas (Jain and Wallace
# 2019, Wiegreffe and Pinter 2019 argue about how good). What counts as evidence is an intervention: change the input
# and see.
#
# {{question attention_as_reason}}
#
# A bank's model reads letters and refuses a loan. The bank shows a picture: most attention lies on the word *student*.
# "So the model refuses students." What do you reply, and what would you measure?

# %% answer attention_as_reason 2 [markdown]
# ### BEGIN SOLUTION
# The picture says that information from *student* is used in places, not what for: it may even speak for the loan, and
# other attention weights may give the same answer. Weights of later layers are about positions that have already mixed
# everything. (1 point.) Measure by intervening: the same letters with *student* removed or replaced by another word,
# many letters, and compare how often the answer changes with what other words do; or compare otherwise equal
# applicants. (1 point.)
#
# **Rubric**
#
# - 1 point: attention shows that something is used, not what for; or other weights could give the same answer
# - 1 point: an intervention: change or remove the word in many letters, and compare with other words
# ### END SOLUTION

# %% [markdown]
# ## Letters, words, pieces
#
# We have read words in one task and letters in the other. Letters need a tiny {{term vocabulary}} and know every word,
# but the sequences are long, and attention costs their square. With words the sequences are short, but the vocabulary
# is vast, and what is not in it is lost: *walked* says nothing about *walking*. BERT's {{term WordPiece}} lies in
# between: frequent words are whole, others are cut into pieces, *walk* + *##ing*, where `##` marks a piece that
# continues a word.
#
# Cutting is greedy: take the longest piece of the vocabulary that fits at the left end, then continue after it. If
# nothing fits at some place, the whole word becomes `[UNK]`.
#
# {{exercise wordpiece}}


# %% exercise wordpiece
def wordpiece(word: str, vocabulary: set[str]) -> list[str]:
    """Cut a word into pieces of the vocabulary, from the left, each as long as possible.

    Pieces after the first have "##" in front, in the vocabulary and in the result: walking is walk, ##ing.
    Returns: the pieces. The cut never goes back: if at some place no piece fits, the whole word is ["[UNK]"].
    """
    ### BEGIN SOLUTION
    pieces: list[str] = []
    start = 0
    while start < len(word):
        mark = "##" if start > 0 else ""
        end = len(word)
        while end > start and mark + word[start:end] not in vocabulary:
            end -= 1
        if end == start:
            return ["[UNK]"]
        pieces.append(mark + word[start:end])
        start = end
    return pieces
    ### END SOLUTION


# %% check wordpiece
check(wordpiece)

# %% figure The same words in letters, pieces and words
cut = yours("wordpiece", wordpiece)
dictionary = sorted(read_cmudict())
random.Random(0).shuffle(dictionary)
known, new = dictionary[:20_000], dictionary[20_000:22_000]
beginnings, endings = Counter(), Counter()
for word in known:
    beginnings.update(word[:n] for n in range(2, len(word) + 1))
    endings.update("##" + word[i:j] for i in range(1, len(word)) for j in range(i + 2, min(i + 7, len(word) + 1)))
letters = {mark + letter for letter in "abcdefghijklmnopqrstuvwxyz" for mark in ("", "##")}
vocabularies = {
    "letters": letters,
    "1,000 pieces": letters | {p for p, _ in beginnings.most_common(474)} | {p for p, _ in endings.most_common(474)},
    "8,000 pieces": letters | {p for p, _ in beginnings.most_common(3974)} | {p for p, _ in endings.most_common(3974)},
    "20,000 words": set(known),
}
cut_up = {name: [cut(word, vocabulary) for word in new] for name, vocabulary in vocabularies.items()}
tokens = {name: sum(map(len, each)) / len(new) for name, each in cut_up.items()}
unknown = {name: sum(pieces == ["[UNK]"] for pieces in each) / len(new) for name, each in cut_up.items()}
print(f"{len(new):,} words that are not among the 20,000")
for name in vocabularies:
    example = " ".join(cut("walking", vocabularies[name]))
    print(f"{name:13} {tokens[name]:.2f} tokens per word, {unknown[name]:4.0%} unknown    walking: {example}")

# %% claims
claim("letters and pieces know every word", unknown["letters"] == unknown["8,000 pieces"] == 0)
claim("whole words know none of the new ones", unknown["20,000 words"] == 1)
claim("8,000 pieces need less than half as many tokens as letters", tokens["8,000 pieces"] < 0.5 * tokens["letters"])

# %% [markdown]
# The pieces here are simply the most frequent beginnings and continuations. Notebook 11 learns better ones.
#
# ## Learning to read without labels
#
# Labels are expensive, text is not. {{term pre-training|Pre-training}} lets an encoder learn from text alone.
# Predicting the next word will not do: an encoder sees it. So BERT hides words and asks for them, as a
# {{term masked language model}}:
#
# 1. **15 %** of the tokens are *chosen* at random, never padding or special tokens.
# 2. Of the chosen ones **80 %** are shown as `[MASK]`, **10 %** as a random token, **10 %** as they are.
# 3. The model is asked for the true token at the chosen places, and only there.
#
# Why not always `[MASK]`? It never occurs in later use. A model that has only ever been asked at `[MASK]` need not keep
# anything useful at the other places. Since any token may be the one that is wrong, it has to have an opinion on all of
# them.
#
# The draws are given as tensors, uniform in $[0, 1)$: `choice` for step 1 and `action` for step 2. Targets that are not
# asked for are $-100$, which torch's losses ignore.
#
# {{exercise mask_tokens}}


# %% exercise mask_tokens
def mask_tokens(
    ids: Tensor, may_be_chosen: Tensor, choice: Tensor, action: Tensor, random_ids: Tensor, mask_id: int
) -> tuple[Tensor, Tensor]:
    """Hide some of the tokens, and ask for them.

    A place is chosen if it may be and its choice < 0.15. A chosen place shows mask_id if its action < 0.8, else its
    random id if its action < 0.9, else its own token.

    ids, random_ids: (batch, time) tokens, which are left as they are; may_be_chosen: (batch, time) boolean;
    choice, action: (batch, time) numbers in [0, 1).
    Returns: inputs (batch, time), and targets (batch, time): the true token at chosen places, -100 at all others.
    """
    ### BEGIN SOLUTION
    chosen = may_be_chosen & (choice < 0.15)
    inputs = torch.where(chosen & (action < 0.8), mask_id, ids)
    inputs = torch.where(chosen & (action >= 0.8) & (action < 0.9), random_ids, inputs)
    targets = torch.where(chosen, ids, -100)
    return inputs, targets
    ### END SOLUTION


# %% check mask_tokens
check(mask_tokens)

# %% figure Notes with gaps
own_mask = yours("mask_tokens", mask_tokens)
notes, _ = reviews.encode_reviews(reviews.notes(8000 if FAST else 20_000, seed=3))
inputs, targets = reader.hide_words(notes, torch.Generator().manual_seed(0), own_mask)
vocabulary = reviews.vocabulary()
for row in (0, 1, 2, 3):
    real = notes[row] != reviews.PAD
    print("text  ", " ".join(vocabulary[i] for i in notes[row][real].tolist()))
    print("shown ", " ".join(vocabulary[i] for i in inputs[row][real].tolist()))
    print("asked ", " ".join("·" if i == -100 else vocabulary[i] for i in targets[row][real].tolist()), "\n")
chosen = targets != -100
kinds = {
    "[MASK]": inputs[chosen] == reviews.MASK,
    "another word": (inputs[chosen] != reviews.MASK) & (inputs[chosen] != targets[chosen]),
    "the word itself": inputs[chosen] == targets[chosen],
}
drawn = chosen.sum().item() / (notes != reviews.PAD).sum().item()
shown = {name: each.float().mean().item() for name, each in kinds.items()}
print(
    f"{drawn:.1%} of the words are chosen; shown as "
    + ", ".join(f"{name} {share:.1%}" for name, share in shown.items())
)

# %% claims
claim("15 % are chosen", abs(drawn - 0.15) < 0.01)
claim("80 % of them show the mask", abs(shown["[MASK]"] - 0.8) < 0.01)
claim(
    "about 10 % each show another word and themselves",
    all(abs(shown[n] - 0.1) < 0.01 for n in ("another word", "the word itself")),
)

# %% [markdown]
# These *notes* have no labels. But opinions in a note agree, so words that appear together mean similar things. To fill
# the gap in *superb view, [MASK] bed*, it helps to know which words *superb* usually goes with.
#
# With $n$ chosen places,
#
# $$\mathcal{L} = -\frac1n \sum_{\text{chosen } b,\,t}
# \log\,\operatorname{softmax}(\text{logits}_{b,t})_{\text{target}_{b,t}}$$
#
# In a small batch nothing may be chosen. Then the loss is 0, and `backward()` must still work.
#
# {{exercise masked_lm_loss}}


# %% exercise masked_lm_loss
def masked_lm_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy at the chosen places: the mean of -log p(target) over all targets that are not -100.

    logits: (batch, time, vocab), any size, ±1000 too; targets: (batch, time).
    Returns: a tensor with one number, in nats. If no place is chosen it is 0, and backward() can still be called.
    """
    ### BEGIN SOLUTION
    chosen = targets != -100  # (batch, time)
    losses = F.cross_entropy(logits[chosen], targets[chosen], reduction="sum")
    return losses / max(int(chosen.sum()), 1)
    ### END SOLUTION


# %% check masked_lm_loss
check(masked_lm_loss)

# %% [markdown]
# Now pre-train: your encoder's parts with one logit for each word of the vocabulary at every position
# (`reference.MaskedLanguageModel`), your masks, your loss, 1,500 steps.

# %% figure Pre-training: filling gaps
own_loss = yours("masked_lm_loss", masked_lm_loss)
steps = 40 if FAST else 1500
torch.manual_seed(1)
gap_filler = reader.new_gap_filler().to(device)
batches = (ids for ids, _ in batches_of(notes, notes[:, 0], batch_size=64, steps=steps, seed=1))
losses = reader.pretrain(gap_filler, bar(batches, "pre-training", total=steps), steps, 3e-3, 1, own_mask, own_loss)
frequencies = torch.bincount(notes[notes != reviews.PAD]).float()
shares = frequencies[frequencies > 0] / frequencies.sum()
without_context = -(shares * shares.log()).sum().item()
every = max(len(losses) // 50, 1)
figure, ax = plt.subplots(figsize=(7, 2.8))
ax.plot(
    range(every, len(losses) + 1, every),
    torch.tensor(losses)[: len(losses) // every * every].reshape(-1, every).mean(dim=1),
    label=f"mean over {every} steps",
)
ax.axhline(without_context, color="grey", linestyle=":", label="knowing only how frequent each word is")
ax.set(title="Filling gaps in notes", xlabel="step", ylabel="loss (nats)")
ax.legend(fontsize=8)
plt.show()

# %% claims
if not FAST:
    claim("the loss falls far below that of word frequencies", sum(losses[-100:]) / 100 < without_context - 1)

# %% figure What does it expect in a gap? And which adjectives are neighbours?
pretrained = gap_filler if not FAST else reader.load_pretrained().to(device)  # the one that comes with the course
guessed = {}
for text in ("lovely room , superb view , [MASK] bed", "lovely room , superb view , bed not [MASK]"):
    ids = reviews.encode_words(text.split())[None].to(device)
    with torch.no_grad():
        p = pretrained(ids)[0, text.split().index("[MASK]")].softmax(dim=-1).cpu()
    guessed[text] = tuple(
        sum(p[reviews.word_ids()[word]].item() for word in words) for words in (reviews.GOOD, reviews.BAD)
    )
    top = [vocabulary[i] for i in p.topk(2).indices.tolist()]
    print(f"{text:42} good words {guessed[text][0]:.2f}, bad words {guessed[text][1]:.2f}; first: {', '.join(top)}")

adjectives = [*reviews.GOOD, *reviews.BAD]
table = pretrained.embedding.table.weight.detach().cpu()[[reviews.word_ids()[word] for word in adjectives]]  # (60, 64)
untrained_table = reader.new_gap_filler().embedding.table.weight.detach()[: len(adjectives)]
figure, axes = plt.subplots(1, 2, figsize=(11, 4.6))
separation = {}
for ax, title, vectors in zip(axes, ("before training", "after filling gaps"), (untrained_table, table)):
    centred = vectors - vectors.mean(dim=0)
    flat = centred @ torch.linalg.svd(centred, full_matrices=False).Vh[:2].T  # (60, 2): the two main directions
    separation[title] = (flat[:30, 0].mean() - flat[30:, 0].mean()).abs().item() / flat[:, 0].std().item()
    for part, label, colour, marker in ((slice(30), "good", COLOURS[0], "o"), (slice(30, 60), "bad", COLOURS[1], "^")):
        ax.scatter(*flat[part].T, color=colour, marker=marker, label=label, s=18)
    for place in range(0, 60, 5) if ax is axes[1] else ():
        ax.annotate(adjectives[place], flat[place].tolist(), xytext=(3, 3), textcoords="offset points", fontsize=7)
    ax.set(title=f"The adjectives' vectors {title}", xlabel="first direction", ylabel="second direction")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8)
plt.show()

# %% claims
agreeing, negated = guessed.values()
claim("good company: a good word is expected", agreeing[0] > 0.8)
claim("behind not, a bad one", negated[1] > negated[0])
claim("after filling gaps, good and bad stand apart", separation["after filling gaps"] > 1.5)
claim("before, they do not", separation["before training"] < 1)

# %% [markdown]
# Nobody told it which words are praise. It has found two groups, and the main direction of its vectors runs between
# them. It does not know which of the two is called *good*. For that, a few labels should be enough.
#
# ## Fine-tuning with eight labels
#
# {{term fine-tuning|Fine-tuning}} keeps the body and replaces the head. The new head knows nothing and needs large
# steps; the body knows much and should only be adjusted. So the two get different learning rates, and the lowest parts
# are often *frozen*: they get no gradients and are not given to the {{term optimiser}}. Optimisers take
# {{term parameter|parameters}} in groups, each with its own rate:
#
# ```python
# torch.optim.AdamW([{"params": [...], "lr": 1e-3}, {"params": [...], "lr": 1e-2}])
# ```
#
# {{exercise fine_tune}}


# %% exercise fine_tune
def fine_tune(model: nn.Module, num_classes: int, body_rate: float, head_rate: float, frozen_layers: int) -> list[dict]:
    """Prepare a pre-trained SequenceClassifier for a new task.

    1. `model.head` becomes a new nn.Linear with as many inputs as the old one and `num_classes` outputs.
    2. `model.embedding`, `model.positions` and the first `frozen_layers` of `model.encoder.layers` are frozen:
       requires_grad is False for their parameters.
    3. What is left of the body, that is the other layers and `model.encoder.norm`, learns with body_rate; the head
       with head_rate.

    Returns: the groups for an optimiser, [{"params": [...], "lr": body_rate}, {"params": [...], "lr": head_rate}].
    """
    ### BEGIN SOLUTION
    model.head = nn.Linear(model.head.in_features, num_classes).to(model.head.weight)  # on the same device
    layers = model.encoder.layers
    for part in [model.embedding, model.positions, *layers[:frozen_layers]]:
        part.requires_grad_(False)
    body = [*layers[frozen_layers:].parameters(), *model.encoder.norm.parameters()]
    return [{"params": body, "lr": body_rate}, {"params": list(model.head.parameters()), "lr": head_rate}]
    ### END SOLUTION


# %% check fine_tune
check(fine_tune)

# %% figure Eight labels: pre-trained, and from scratch
own_fine_tune = yours("fine_tune", fine_tune)
new_notes = reviews.encode_reviews(reviews.notes(2000, seed=6, opinions=3))


def learn_from(labelled: tuple[Tensor, Tensor], model: nn.Module, groups: list[dict], steps: int = 100) -> float:
    """100 steps on the same few notes. Returns: % of 2,000 new notes judged right."""
    train_classifier(model, [labelled] * steps, steps, groups)
    return 100 * accuracy(model, *new_notes)


results: dict[str, list[float]] = {"pre-trained": [], "from scratch": [], "bag of words": []}
for draw in bar(range(2 if FAST else 5), "draws of eight notes"):
    labelled = reviews.encode_reviews(reviews.few_notes(8, seed=100 + draw))
    torch.manual_seed(draw)
    model = reader.new_judge(lambda size, _, **sizes: reference.SequenceClassifier(size, size, **sizes)).to(device)
    model.load_state_dict(pretrained.state_dict())
    results["pre-trained"].append(learn_from(labelled, model, own_fine_tune(model, 2, 1e-3, 1e-2, frozen_layers=0)))
    fresh, bag = reader.new_judge().to(device), reader.BagOfWords(len(vocabulary), 2).to(device)
    results["from scratch"].append(learn_from(labelled, fresh, everything(fresh, 1e-3)))
    results["bag of words"].append(learn_from(labelled, bag, everything(bag, 1e-1)))
figure, ax = plt.subplots(figsize=(6.5, 2.8))
for row, shares in enumerate(results.values()):
    ax.scatter(shares, [row] * len(shares), color=COLOURS[row], alpha=0.7, s=30)
    ax.plot(sum(shares) / len(shares), row, "|", color="black", markersize=22)
    ax.annotate(
        f"{sum(shares) / len(shares):.0f}",
        (sum(shares) / len(shares), row),
        xytext=(-4, 13),
        textcoords="offset points",
    )
ax.axvline(50, color="grey", linestyle=":")
ax.set(title="Eight labels, drawn five times (bar: the mean)", xlabel="% of new notes judged right", xlim=(45, 103))
ax.set_yticks(range(3), list(results))
ax.set_ylim(2.6, -0.7)
plt.show()

# %% claims
mean = {name: sum(shares) / len(shares) for name, shares in results.items()}
claim("pre-trained, most are right", mean["pre-trained"] > 85)
claim("from scratch, three of four at most", mean["from scratch"] < 75 and mean["bag of words"] < 75)

# %% [markdown]
# Eight notes mention at most 24 of the 60 adjectives. A model that starts from scratch knows these at best; a
# pre-trained one knows which others go with them. The eight labels only have to name the groups.
#
# ## BERT
#
# BERT (Devlin et al. 2018) is this recipe at scale. The largest has 24 layers, $d_\text{model} = 1024$ and 16 heads; it
# was pre-trained on 800 million words of books and 2,500 million words of Wikipedia. Then, for every task, one new
# layer on top of `[CLS]`, and the whole model is fine-tuned.
#
# It had a second pre-training task: **next sentence**. Two pieces of text are given with a token `[SEP]` between them;
# does the second follow the first, or does it come from elsewhere? Does this test order and coherence? We cut our notes
# in half and ask whether two halves belong to the same note. One model has positions, the other is blind to order:


# %% figure Next sentence, with and without order
def halves(seed: int, number: int) -> tuple[Tensor, Tensor]:
    """Pairs of half notes with [SEP] between them: (pair, time), and whether they belong together (pair,)."""
    dice, rows, labels = random.Random(seed), [], []
    firsts, others = reviews.notes(number, seed), reviews.notes(number, seed + 1)
    for first, other in zip(firsts, others):
        together = dice.random() < 0.5
        second = first if together else other
        middle, end = ([i for i, word in enumerate(note.words) if word == ","][1] for note in (first, second))
        rows.append(reviews.encode_words([*first.words[:middle], "[SEP]", *second.words[end + 1 :]]))
        labels.append(int(together))
    return nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.tensor(labels)


training_pairs, new_pairs = halves(20, 1000 if FAST else 10_000), halves(30, 2000)
steps, following = 20 if FAST else 200, {}
for name in ("with positions", "without"):
    model = reader.new_judge(lambda size, _, **sizes: reference.SequenceClassifier(size, size, **sizes)).to(device)
    model.load_state_dict(reader.load_pretrained().state_dict())
    torch.manual_seed(1)
    model.head = nn.Linear(64, 2).to(device)
    if name == "without":
        reader.without_positions(model)
    batches = bar(batches_of(*training_pairs, batch_size=64, steps=steps, seed=1), name, total=steps)
    train_classifier(model, batches, steps, everything(model, 2e-3))
    following[name] = accuracy(model, *new_pairs)
    print(f"{name:15} {following[name]:.1%} of the pairs right")

# %% claims
claim("order is worth little", following["with positions"] - following["without"] < 0.06)
if not FAST:
    claim("both are near the ceiling of 92 %", 0.84 < min(following.values()) and max(following.values()) < 0.935)

# %% [markdown]
# The model without positions knows neither which word comes first nor which half it is in, and is about as good. It is
# enough to see whether the words fit: *soup* beside *lobby* does not, nor praise beside complaint. (By chance one wrong
# half in six fits on both counts, so nobody can exceed 92 %.) The task asks about topics, not about order. RoBERTa
# (2019) left it out and lost nothing; ALBERT (2020) asks instead which of two neighbouring pieces comes first.
#
# **How large is it?** Usually 340 million parameters are quoted. Count them:
#
# - three tables whose rows are added: 30,522 tokens, 512 positions and 2 *segments* (first or second sentence), and a
#   norm after the sum;
# - 24 layers: attention with four matrices, a feed-forward network of width $d_\text{ff} = 4096$, each linear map with
#   a {{term bias}}, and two norms;
# - the *pooler*, one more linear layer with bias, from $d_\text{model}$ to $d_\text{model}$, on the vector of `[CLS]`.
#
# A {{term LayerNorm|norm}} has a gain and a bias for each feature. The output layer of the masked language model is not
# counted.
#
# {{exercise bert_parameters}}


# %% exercise bert_parameters
def bert_parameters(vocab_size: int, max_len: int, num_segments: int, d_model: int, d_ff: int, num_layers: int) -> int:
    """How many numbers BERT learns, without any head. Returns: a whole number."""
    ### BEGIN SOLUTION
    tables = (vocab_size + max_len + num_segments) * d_model
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    pooler = d_model * d_model + d_model
    return tables + norm + num_layers * (attention + feed_forward + 2 * norm) + pooler
    ### END SOLUTION


# %% check bert_parameters
check(bert_parameters)

# %% figure Where BERT's parameters are
count = yours("bert_parameters", bert_parameters)
sizes = {"BERT-base": (30_522, 512, 2, 768, 3072, 12), "BERT-large": (30_522, 512, 2, 1024, 4096, 24)}
millions = {}
figure, ax = plt.subplots(figsize=(8, 2.2))
for name, (vocab, length, segments, d, d_ff, layers) in sizes.items():
    total = count(vocab, length, segments, d, d_ff, layers)
    millions[name] = total / 1e6
    norm, pooler, attention = 2 * d, d * d + d, layers * 4 * (d * d + d)
    tables = (vocab + length + segments) * d
    rest = total - tables - norm - pooler - attention - layers * 2 * norm
    parts = {
        "tables": tables,
        "attention": attention,
        "feed-forward": rest,
        "norms and pooler": norm * (1 + 2 * layers) + pooler,
    }
    left = 0.0
    for (part, size), colour in zip(parts.items(), COLOURS):
        ax.barh(name, size / 1e6, left=left, color=colour, label=part if name == "BERT-base" else None)
        left += size / 1e6
    ax.annotate(f"{total:,}", (left + 3, name), va="center", fontsize=9)
ax.set(title="Parameters", xlabel="millions", xlim=(0, 440))
ax.invert_yaxis()
ax.legend(fontsize=8, loc="upper right")
plt.show()

# %% claims
claim("BERT-large has 335.1 million", round(millions["BERT-large"], 1) == 335.1)

# %% [markdown]
# 335.1 million; "340" is rounded up. Most of them are in the feed-forward networks. The number of heads does not appear
# in the count: it makes no difference (notebook 4).
#
# Devlin et al. found that most of the gain over GPT came from seeing both sides: the same model with a causal mask did
# worse at every task of understanding they tried. The price is that BERT cannot write. Which to choose:
#
# | | encoder-only (BERT) | decoder-only (GPT) |
# |---|---|---|
# | a token sees | both sides | the past |
# | pre-trained to | fill gaps: 15 % of the tokens teach | predict the next token: every token teaches |
# | made for | classifying, searching, tagging | writing |
#
# {{question which_stack}}
#
# You want to build (a) a filter that sorts incoming mail into five folders, with 50 labelled mails and a million
# unlabelled ones, and (b) a tool that completes a mail while it is written. Which stack, which mask, which pre-training
# task for each, and why not the other one?

# %% answer which_stack 2 [markdown]
# ### BEGIN SOLUTION
# (a) An encoder whose only mask is the one for padding: the whole mail is there, and both sides help. Pre-train it as
# a masked language model on the million mails, then a new head with five classes, fine-tuned on the 50 labels with a
# small learning rate for the body. (1 point.) (b) A decoder with a causal mask, pre-trained to predict the next token:
# when it completes a mail there is no right-hand side, and an encoder that has only filled gaps with both sides in
# view has never learned to do without one. (A decoder could also be used for (a), with its last position as the text's
# vector, but every other position would see only half of the mail.) (1 point.)
#
# **Rubric**
#
# - 1 point: (a) encoder, padding mask only, masked language model, then fine-tuning, with the reason
# - 1 point: (b) decoder, causal mask, next token, with the reason why an encoder is not suitable
# ### END SOLUTION

# %% [markdown]
# ## What you can do now
#
# Make one vector of many without counting padding; build a reader and test whether it reads; use a confusion matrix;
# say what attention weights show and what they do not; cut words into pieces; pre-train by filling gaps and fine-tune
# with few labels.
#
# **To read on**: Devlin et al. (2018), *BERT* · Liu et al. (2019), *RoBERTa* · Lan et al. (2020), *ALBERT* · Jain and
# Wallace (2019), *Attention is not Explanation*, and Wiegreffe and Pinter (2019), *Attention is not not Explanation* ·
# Bloem (2019), *Transformers from scratch*.
