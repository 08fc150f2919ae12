"""A translator: the grammar's sentences as numbers, and the model that was trained on them.

A row of ids is a sentence, closed by EOS and padded after it; BOS is only ever given to the decoder. Two smaller
tasks, copying and reversing, come in the same form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path

import torch
from torch import Tensor

from course_lib.decoding import bleu, exact_match, generate
from course_lib.grammar import MAX_WORDS, Pair, english_words, french_words, spell
from course_lib.settings import device_of
from course_lib.start_here import pad_batch
from course_lib.training import shift_right
from course_lib.transformer import Transformer, cross_attention_weights

PAD, BOS, EOS = 0, 1, 2

# --- sentences as numbers -------------------------------------------------------------------------------


class Vocabulary:
    """Words and their ids. The first three ids are PAD, BOS and EOS."""

    def __init__(self, words: Sequence[str]):
        self.words = ["<pad>", "<bos>", "<eos>", *words]
        self.ids = {word: id_ for id_, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, words: Sequence[str]) -> Tensor:
        """The ids of these words, EOS after them: (time,)."""
        unknown = [word for word in words if word not in self.ids]
        if unknown:
            raise ValueError(f"Not in the vocabulary: {', '.join(unknown)}. It has {len(self)} words, see `.words`.")
        return torch.tensor([self.ids[word] for word in words] + [EOS])

    def decode(self, ids: Sequence[int] | Tensor) -> list[str]:
        """The words before the first EOS, without BOS and PAD."""
        numbers = [int(id_) for id_ in ids]
        if EOS in numbers:
            numbers = numbers[: numbers.index(EOS)]
        return [self.words[number] for number in numbers if number not in (PAD, BOS)]


@cache
def english_vocabulary() -> Vocabulary:
    """The words of the source language, 305 ids."""
    return Vocabulary(english_words())


@cache
def french_vocabulary() -> Vocabulary:
    """The words of the target language, 405 ids."""
    return Vocabulary(french_words())


def encode_pairs(pairs: Sequence[Pair]) -> tuple[Tensor, Tensor]:
    """Source ids (pair, source) and target ids (pair, target), each row closed by EOS and padded."""
    source, _ = pad_batch([english_vocabulary().encode(pair.english) for pair in pairs], PAD)
    targets, _ = pad_batch([french_vocabulary().encode(pair.french) for pair in pairs], PAD)
    return source, targets


def random_batches(
    source: Tensor, targets: Tensor, batch_size: int, steps: int, seed: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """`steps` batches of rows drawn at random, each no wider than its longest row. The same seed, the same batches."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        rows = torch.randint(len(source), (batch_size,), generator=generator)
        yield without_padding_columns(source[rows]), without_padding_columns(targets[rows])


def without_padding_columns(ids: Tensor) -> Tensor:
    """The batch without the columns at its end that hold nothing but padding."""
    longest = int((ids != PAD).sum(dim=1).max())
    return ids[:, :longest]


# --- smaller worlds -------------------------------------------------------------------------------------


def copy_batches(
    batch_size: int,
    steps: int,
    seed: int,
    reverse: bool = False,
    vocab_size: int = 20,
    shortest: int = 4,
    longest: int = 16,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of random symbols to be copied, or to be reversed. Ids 0, 1, 2 are PAD, BOS, EOS.

    Yields: source (batch, source), targets (batch, target): symbols, EOS, padding.
    """
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        lengths = torch.randint(shortest, longest + 1, (batch_size,), generator=generator)
        rows = [torch.randint(EOS + 1, vocab_size, (int(n),), generator=generator) for n in lengths]
        end = torch.tensor([EOS])
        source, _ = pad_batch([torch.cat([row, end]) for row in rows], PAD)
        targets, _ = pad_batch([torch.cat([row.flip(0) if reverse else row, end]) for row in rows], PAD)
        yield source, targets


# --- the translator -------------------------------------------------------------------------------------

WEIGHTS = Path(__file__).with_name("translator.pt")
LONGEST_ANSWER = 40  # more than any right answer; a model that does not find an end is stopped here


def new_translator() -> Transformer:
    """The translator before training: pre-norm, 2 + 2 layers, 4 heads, about 0.8 million parameters."""
    return Transformer(
        src_vocab=len(english_vocabulary()),
        tgt_vocab=len(french_vocabulary()),
        d_model=128,
        num_heads=4,
        d_ff=256,
        num_layers=2,
        pad_id=PAD,
        max_len=64,
    )


def load_translator() -> Transformer:
    """The translator that comes with the course, trained by `python -m benchmarks.train_translator`."""
    model = new_translator()
    state = torch.load(WEIGHTS, map_location="cpu", weights_only=True)
    model.load_state_dict(state)  # half precision in the file, single in the model
    return model.eval()


def save_translator(model: Transformer, path: Path = WEIGHTS) -> None:
    """Write the weights in half precision, which halves the file."""
    torch.save({name: value.half() for name, value in model.state_dict().items()}, path)


def translate(model: Transformer, sentences: Sequence[str]) -> list[str]:
    """Greedy translations of English sentences."""
    words = [sentence.lower().removesuffix(".").split() for sentence in sentences]
    source, _ = pad_batch([english_vocabulary().encode(sentence) for sentence in words], PAD)
    results = generate(model, source.to(device_of(model)), BOS, EOS, max_len=LONGEST_ANSWER)
    return [spell(french_vocabulary().decode(ids)) for ids in results]


def translation_quality(model: Transformer, pairs: Sequence[Pair]) -> tuple[float, float]:
    """Greedy translations against the grammar's own: the share that is exactly right, and BLEU."""
    source, _ = encode_pairs(pairs)
    results = generate(model, source.to(device_of(model)), BOS, EOS, max_len=MAX_WORDS + 1)
    hypotheses = [french_vocabulary().decode(ids) for ids in results]
    references = [pair.french for pair in pairs]
    return exact_match(hypotheses, references), bleu(hypotheses, references)


def usual_words(pairs: Sequence[Pair]) -> dict[str, str]:
    """The French word that goes with each English one most reliably: a dictionary without any grammar.

    How well two words go together is measured by the Dice coefficient: twice the number of pairs that have both,
    divided by the number that have the one plus the number that have the other.
    """
    sentences = [(set(pair.english), set(pair.french)) for pair in pairs]
    english = Counter(word for words, _ in sentences for word in words)
    french = Counter(word for _, words in sentences for word in words)
    together = Counter(both for words, others in sentences for both in product(words, others))
    best: dict[str, tuple[float, str]] = {}
    for (word, other), number in together.items():
        dice = 2 * number / (english[word] + french[other])
        best[word] = max(best.get(word, (0.0, "")), (dice, other))
    return {word: other for word, (_, other) in best.items()}


@torch.no_grad()
def alignment_accuracy(model: Transformer, pairs: Sequence[Pair]) -> list[float]:
    """How often a decoder layer looks at the right English word, for each layer.

    Counted for every French noun, adjective and verb, at the step that *predicts* it: the decoder then stands on the
    word before. The heads' weights are averaged, and the place with the largest weight is where the layer looks.
    """
    source, targets = (ids.to(device_of(model)) for ids in encode_pairs(pairs))
    weights = cross_attention_weights(model, source, shift_right(targets, BOS))  # (layer, pair, head, target, source)
    looked_at = weights.mean(dim=2).argmax(dim=-1).cpu()  # (layer, pair, target)
    links = [(row, french, english) for row, pair in enumerate(pairs) for french, english in pair.alignment]
    rows, french, english = torch.tensor(links).T  # (link,) each
    right = looked_at[:, rows, french] == english  # (layer, link)
    return right.float().mean(dim=1).tolist()
